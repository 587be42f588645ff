package render

import (
	"os"
	"os/exec"
)

func giveAway(string) error { return nil }

// confine makes a browser run without the crawl's environment. It ends with its pipe.
func confine(cmd *exec.Cmd, dir string) {
	cmd.Dir = dir
	for _, name := range []string{"SYSTEMROOT", "PATH", "LOCALAPPDATA", "USERPROFILE"} {
		cmd.Env = append(cmd.Env, name+"="+os.Getenv(name))
	}
	cmd.Env = append(cmd.Env, "TEMP="+dir, "TMP="+dir)
}

// killAll ends a browser. Its other processes end with it.
func killAll(p *os.Process) { _ = p.Kill() }
