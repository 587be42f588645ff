package redis

import (
	"crypto/sha1" // by which Redis names scripts; nothing is kept secret by it
	"embed"
	"encoding/hex"
)

//go:embed lua
var lua embed.FS

// script is a text that servers run, and what they call it.
type script struct{ name, text, sha string }

// The scripts of a partition, then those of a job. Only light ones, which need little memory, run on a server out of
// memory.
var (
	scriptAdd     = newScript("add", false, "common", "add")
	scriptAcquire = newScript("acquire", true, "common", "acquire")
	scriptLoad    = newScript("load", true, "common", "load")
	scriptDone    = newScript("done", true, "common", "done")
	scriptRelease = newScript("release", true, "common", "release")
	scriptRenew   = newScript("renew", true, "common", "renew")

	scriptJob   = newScript("job", false, "job")
	scriptHello = newScript("hello", true, "hello")
	scriptSeeds = newScript("seeds", false, "seeds")
	scriptDraw  = newScript("draw", true, "draw")
	scriptSlots = newScript("slots", true, "slots")
	scriptSet   = newScript("set", true, "set")
	scriptNote  = newScript("note", true, "note")
)

func newScript(name string, light bool, files ...string) *script {
	text := "#!lua\n"
	if light {
		text = "#!lua flags=allow-oom\n"
	}
	for _, file := range files {
		part, err := lua.ReadFile("lua/" + file + ".lua")
		if err != nil {
			panic("redis: " + err.Error()) // it is compiled in
		}
		text += string(part)
	}
	sum := sha1.Sum([]byte(text))
	return &script{name, text, hex.EncodeToString(sum[:])}
}
