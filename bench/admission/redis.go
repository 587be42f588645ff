package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// patience is for what has to happen sometime on a busy machine.
const patience = 10 * time.Second

// redisServer is a redis-server of our own.
type redisServer struct {
	addr string
	dir  string
	cmd  *exec.Cmd
	log  bytes.Buffer
}

// startRedis starts one on a free port, which ends with ctx. Its error is
// exec.ErrNotFound if the program is not there.
func startRedis(ctx context.Context) (*redisServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	s := &redisServer{}
	if s.dir, err = os.MkdirTemp("", "admission-bench-"); err != nil {
		return nil, err
	}
	for range 5 { // another process may take the port between finding and using it
		if s.addr, err = freeAddr(); err != nil {
			break
		}
		if err = s.run(ctx, path); err == nil {
			return s, nil
		}
		s.kill()
	}
	s.stop()
	return nil, fmt.Errorf("redis-server does not start: %w: %s", err, s.log.String())
}

// run starts the process and waits until it takes connections.
func (s *redisServer) run(ctx context.Context, path string) error {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	s.cmd = exec.CommandContext(ctx, path, "--bind", "127.0.0.1", "--port", port, "--dir", s.dir, "--save", "", "--appendonly", "no")
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if c, err := net.Dial("tcp", s.addr); err == nil {
			return c.Close()
		}
		if err := clock.Sleep(ctx, clock.System(), 5*time.Millisecond); err != nil {
			return fmt.Errorf("nothing answers at %s: %w", s.addr, err)
		}
	}
}

// kill ends the process, by its id.
func (s *redisServer) kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
	s.cmd = nil
}

func (s *redisServer) stop() {
	s.kill()
	_ = os.RemoveAll(s.dir)
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
