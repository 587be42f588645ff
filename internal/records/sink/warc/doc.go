// Package warc writes the exchanges of a crawl as web archives: WARC/1.1 files
// (ISO 28500:2017) that browsers of the past, such as pywb, replay.
//
// [Open] opens a directory, or a single file, and gives a [*Writer], which is a sink that may be resumed. It
// takes the records of a crawl that have an Exchange and leaves the others out. [Reader]
// reads a file back, strictly. [FieldsOf] and the rest of the reading side are also what a
// resumed crawl finds its place with.
//
// # What is written
//
// A file begins with a warcinfo record: the program, its settings, and how many bytes of
// the series come before it. Each exchange is three records that name each other. The
// response has what the server sent, byte by byte; the request what it was asked; and the
// metadata where the URL was found, how long it took, and the links of the page. In place
// of a response there is a revisit, with the header of the answer alone, if its payload is
// that of an earlier response, or if the server says that nothing has changed (304). A
// payload is the body without the framing of chunks and with its compression; its digest
// is that, as the standard has it.
//
// Archives are handed on. Requests are archived as they were sent but for the values of
// credentials and cookies, unless Config.Credentials keeps them; what a server sets as a
// cookie is in its answer, and stays there. A page that says noarchive to robots asks that
// no copy of it be shown: the metadata says so, for whoever shows the archive, and
// Config.ObeyNoArchive leaves all else of it out. A revisit for a 304 has the date of the
// answer that it stands for, if the crawl knows that.
//
// # Files
//
// A record is a gzip member of its own, so that it can be read from its offset, and a file
// of whole records is a whole gzip file. Files are named PREFIX-TIME-SERIAL-HOST.warc.gz,
// with .open behind that until they are complete. A complete file has an index beside it,
// NAME.cdxj, sorted, with a line for each response and revisit: the URL as a sort-friendly
// key, the time, and as JSON where the record is. When a file has its size, which the last
// exchange in it may exceed, the next one begins.
//
// A single file is a series of one that never ends: it has the name that it was given, plain
// or compressed as that says, and neither a bound nor an index.
//
// # The invariant
//
// The files of a directory are one series. A [sink.Position] counts the bytes of all of
// them; it lies between two exchanges. Only whole exchanges are handed to a file, and what
// the system takes of one only in part is cut off. After a crash, files are whole but for
// the end of the last one; Resume cuts the series back to the position, however many files
// have been begun behind it, and Append to the end of the last whole exchange, for who has
// kept no position.
//
// # What is forgotten
//
// The digests of payloads are remembered up to a bound, those not met for longest are
// forgotten. A resumed crawl knows those of the file that it goes on with, and by their
// indexes those of the files before, as far as they are there; what a revisit has to say of
// one is read from its record. What is
// forgotten is stored again in full, which costs room and loses nothing.
//
// A Writer must not be used by two goroutines at once, but for Sync.
package warc
