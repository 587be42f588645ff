package sqlitedb

import (
	"syscall"

	"github.com/treadlight/crawl/internal/backend"
)

// Engine is SQLite itself: package engine registers it.
var Engine = backend.New[Opener]("a file of SQLite", "sqlite")

// Linked reports that this program has SQLite, or says what to import.
func Linked() error {
	_, err := Engine.Get()
	return err
}

// Opener opens a file by its absolute name or, read only and as one that never changes, by its URI. A connection is
// there also beside a code of failure, for [Conn.Message] and [Conn.Close].
type Opener func(name string, how How) (Conn, Code)

// How is how a file is opened.
type How uint8

// The ways to open a file.
const (
	Existing How = iota
	Make         // it is made if it is not there
	ByURI
)

// Conn is a connection. Texts are as in C: a NUL ends them.
type Conn interface {
	Exec(script string) Code
	Prepare(query string) (Statement, Code)
	BusyTimeout(milliseconds int32)
	Changes() int64
	Interrupt() // from any goroutine
	// Message is what SQLite says of the code that the last call returned, and the system's error of the last call
	// that had one.
	Message(Code) (string, syscall.Errno)
	Close() Code // once, after all statements
}

// Statement is a prepared statement, whose methods are those of [Stmt] one by one.
type Statement interface {
	Int(param int, v int64) Code
	Float(param int, v float64) Code
	Null(param int) Code
	Text(param int, v string) Code // copies v, until Reset
	Step() Code
	Reset()
	ColumnInt(column int) int64
	ColumnFloat(column int) float64
	ColumnBytes(column int) []byte // memory of SQLite's
	ColumnIsNull(column int) bool
	Close() Code // once
}

// Code is a result of SQLite, of which the low byte is the primary one.
type Code int32

func (c Code) primary() Code { return c & 0xff }

// The results that are told apart here. Their numbers are part of SQLite's interface.
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
