package redis

import (
	"crypto/sha1" // by which Redis names scripts; nothing is kept secret by it
	_ "embed"
	"encoding/hex"
)

// What a script's first line says: whether it may run when the server has no memory left.
// Those that may give memory back, or take little. One that may not is refused before it
// has changed anything.
const (
	needsMemory = "#!lua\n"
	gives       = "#!lua flags=allow-oom\n"
)

var (
	//go:embed lua/common.lua
	luaCommon string
	//go:embed lua/add.lua
	luaAdd string
	//go:embed lua/acquire.lua
	luaAcquire string
	//go:embed lua/load.lua
	luaLoad string
	//go:embed lua/done.lua
	luaDone string
	//go:embed lua/release.lua
	luaRelease string
	//go:embed lua/renew.lua
	luaRenew string
	//go:embed lua/job.lua
	luaJob string
	//go:embed lua/hello.lua
	luaHello string
	//go:embed lua/seeds.lua
	luaSeeds string
	//go:embed lua/draw.lua
	luaDraw string
	//go:embed lua/slots.lua
	luaSlots string
	//go:embed lua/set.lua
	luaSet string
	//go:embed lua/note.lua
	luaNote string
)

// script is a text that servers run, and what they call it.
type script struct{ name, text, sha string }

func newScript(name, text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{name, text, hex.EncodeToString(sum[:])}
}

// The scripts of a partition, and then those of a job.
var (
	scriptAdd     = newScript("add", needsMemory+luaCommon+luaAdd)
	scriptAcquire = newScript("acquire", gives+luaCommon+luaAcquire)
	scriptLoad    = newScript("load", gives+luaCommon+luaLoad)
	scriptDone    = newScript("done", gives+luaCommon+luaDone)
	scriptRelease = newScript("release", gives+luaCommon+luaRelease)
	scriptRenew   = newScript("renew", gives+luaCommon+luaRenew)

	scriptJob   = newScript("job", needsMemory+luaJob)
	scriptHello = newScript("hello", gives+luaHello)
	scriptSeeds = newScript("seeds", needsMemory+luaSeeds)
	scriptDraw  = newScript("draw", gives+luaDraw)
	scriptSlots = newScript("slots", gives+luaSlots)
	scriptSet   = newScript("set", gives+luaSet)
	scriptNote  = newScript("note", gives+luaNote)
)
