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

// other is the user that browsers of root run as: the one who called sudo, or nobody.
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

// giveAway gives the directory of a browser to whom it runs as.
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

// confine has a browser run as a group of processes of its own, not as root, that knows nothing of the crawl's
// environment, and on Linux ends with the crawl. It ends elsewhere too, with the pipe.
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
		cmd.Path, cmd.Err = "", err // profile has failed before
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
