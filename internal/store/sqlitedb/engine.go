package sqlitedb

import (
	"syscall"

	"github.com/treadlight/crawl/internal/backend"
)

// Engine is SQLite itself. Package engine registers it.
var Engine = backend.New[Opener]("a file of SQLite", "sqlite")

// Linked returns nil if this program contains SQLite; otherwise the error says what to import.
func Linked() error {
	_, err := Engine.Get()
	return err
}

// Opener opens a file by its absolute path or, for ByURI, by a URI, by which it can be opened read only and as
// immutable. Even if the code is an error there is a connection, for [Conn.Message] and [Conn.Close].
type Opener func(name string, how How) (Conn, Code)

// How says how a file is opened.
type How uint8

// The ways to open a file.
const (
	Existing How = iota
	Make         // the file is made if it does not exist
	ByURI
)

// Conn is a connection. Texts end at a NUL, as in C.
type Conn interface {
	Exec(script string) Code
	Prepare(query string) (Statement, Code)
	BusyTimeout(milliseconds int32)
	Changes() int64
	Interrupt() // may be called from any goroutine
	// Message returns SQLite's text about the code that the last call returned, and the system's error of the last call
	// that had one.
	Message(Code) (string, syscall.Errno)
	Close() Code // must be called once, after all statements are closed
}

// Row is a row of a result. Its columns are counted from 0.
type Row interface {
	ColumnInt(column int) int64
	ColumnFloat(column int) float64
	// ColumnBytes returns text, or nil for NULL. It is valid until row of [DB.Each] returns or asks for the column again.
	ColumnBytes(column int) []byte
	ColumnIsNull(column int) bool
}

// Statement is a prepared statement. Its parameters are counted from 1.
type Statement interface {
	Row
	Int(param int, v int64) Code
	Float(param int, v float64) Code
	Null(param int) Code
	Text(param int, v string) Code // keeps a copy of v until Reset
	Step() Code
	Reset()
	Close() Code // must be called once
}

// Code is a result code of SQLite. Its low byte is the primary code.
type Code int32

func (c Code) primary() Code { return c & 0xff }

// The result codes that are distinguished here. Their numbers are part of SQLite's interface.
const (
	OK           Code = 0
	codePerm     Code = 3
	codeBusy     Code = 5
	NoMemory     Code = 7
	codeReadOnly Code = 8
	codeIO       Code = 10
	codeCorrupt  Code = 11
	codeFull     Code = 13
	codeCantOpen Code = 14
	codeProtocol Code = 15
	codeAuth     Code = 23
	codeNotADB   Code = 26
	codeRow      Code = 100
	codeDone     Code = 101
)
