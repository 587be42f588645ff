package crawl

import "github.com/treadlight/crawl/internal/assembly"

// ArchiveConfig says where exchanges are archived, and how. Dir is required.
type ArchiveConfig struct {
	// Dir is a directory, which is made if need be, or a file if File is set.
	Dir string
	// File makes one archive of all, without an index, of which Dir is the file. It is
	// compressed if its name ends in .gz. False: a series of archives in a directory.
	File bool
	// Settings are those of the crawl. Their section warc says how to write, and what else
	// is not as by default is told in the archives, but for secrets; output.overwrite has
	// archives of other crawls with the same prefix replaced.
	Settings Settings
	// Version names the program in the archives, as in [Config]. Empty: not told.
	Version string
	// Resume is how far the archives were that a crawl goes on with: its [State.Position].
	// What they have behind that is cut off. Nil begins new ones.
	Resume *Position
	// GoOn writes behind what is there, for a process that restarts and knows no Position:
	// what follows the last whole exchange is cut off. False, or with Resume or
	// output.overwrite: it does not.
	GoOn bool
}

// OpenArchive opens a directory for web archives, WARC/1.1 files with an index beside each, or
// one such file: a sink for [Config.Archives], to be closed after the crawl. Its [Position]
// has the path of the directory, or of the file.
func OpenArchive(cfg ArchiveConfig) (Durable, error) {
	return assembly.OpenArchive(assembly.ArchiveConfig(cfg))
}
