//go:build unix

package render

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// other returns the user as which the browsers of root run: the one who called sudo, or nobody.
func other() (uid, gid int, err error) {
	u, err := user.LookupId(os.Getenv("SUDO_UID"))
	if err != nil || u.Uid == "0" {
		if u, err = user.Lookup("nobody"); err != nil {
			return 0, 0, fmt.Errorf("%w: there is no user nobody to start it as", os.ErrPermission)
		}
	}
	if uid, err = strconv.Atoi(u.Uid); err == nil {
		gid, err = strconv.Atoi(u.Gid)
	}
	return uid, gid, err
}

// giveAway makes the user of the browsers the owner of a browser's directory.
func giveAway(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid, err := other()
	if err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
}

// confine makes a browser run in a process group of its own, not as root, and without the crawl's environment. On Linux
// it is killed when the crawl's process ends; elsewhere it ends with its pipe.
func confine(cmd *exec.Cmd, dir string) {
	cmd.Env = environment(dir)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(cmd.SysProcAttr)
	if os.Getuid() != 0 {
		return
	}
	if uid, gid, err := other(); err == nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	} else {
		cmd.Path, cmd.Err = "", err // profile fails first in that case
	}
}

// killAll ends all processes of a browser.
func killAll(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

func environment(dir string) []string {
	env := []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
	for _, name := range []string{"LANG", "LC_ALL", "FONTCONFIG_PATH", "FONTCONFIG_FILE", "LD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
