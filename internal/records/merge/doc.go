// Package merge makes one file of the records of several, in which each URL is once.
//
// The processes of a fleet write a file each, and a URL whose process was killed behind its
// record is fetched again by another one: at least once, and never less. So a URL may have
// several records, which this package makes one of.
//
// # Which record counts
//
// Of the records of a URL the one of the highest class counts: a success (a whole answer of
// 2xx or 3xx), another whole answer that says something of the page (4xx but 408, 425 and
// 429), an answer that is trouble of the server or not whole, a request without an answer, no
// request at all. Of one class the one that was sent last, of one time the one with more tries
// before it, and of those the one whose line has the larger hash. [Config.Newest] leaves the
// class out. In a list of URLs, that have nothing to compare, all are the same.
//
// # The laws
//
// Which records a merge has does not depend on the order of the files, nor on how they were
// merged before: merge(a, b) is merge(b, a), merge(a, merge(b, c)) is merge(merge(a, b), c),
// and merge(a, a) is merge(a). Lines are copied byte by byte, in the order of the files and
// of the lines in them, so a merge merged again is the same file.
//
// # How
//
// Files are read twice. The first reading notes 48 bytes of each record, its URL as two
// hashes under keys of this run, sorts them in memory or, beyond [Config.Memory], in runs
// on disk, and keeps a bit of each record: it is the one that counts. The second copies these.
// So memory is Config.Memory and a bit for each record, whatever the records are, and disk
// for the runs is 48 bytes for each; 10,000,000 records are 480 MB of runs. Two URLs are
// taken for one with a probability of n² in 2¹²⁹.
//
// An index of archives (CDXJ) is merged by [Index], which keeps every capture: archives of
// several processes are one collection as they lie.
//
// Functions may be called by several goroutines at once, with different outputs.
package merge
