package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
)

// Least is the ACL that a server's user needs, on the keys of jobs and of shared rates.
const Least = "~crawl:* ~rate_limiter:* +@read +@write +@scripting +@connection +info +time"

// LeastInCluster is what the user needs in addition at each node of a cluster, to read slots and nodes.
const LeastInCluster = "+cluster|slots +cluster|nodes"

// allow is the command that gives a user these permissions.
const allow = "ACL SETUSER it " + Least + " (in a cluster at each node, and with " + LeastInCluster + ")"

// hints says what helps against error messages of a server.
var hints = []struct{ text, hint string }{
	{"NOAUTH", "the server wants a password: put ${NAME} of a variable that has it into the URL, as in redis://:${REDIS_PASSWORD}@HOST, or give a file with it"},
	{"WRONGPASS", "the server does not know that user with that password, or the user is off"},
	{"NOPERM", "the user may not do all that a crawl does: " + allow},
	{"has no permissions", "the user may not do all that a crawl does: " + allow}, // Valkey's message from a script
	{"can't run this command", "the user may not do all that a crawl does: " + allow},
	{"MOVED", "the server is one of a cluster, and the user may not ask who has which keys: " + allow},
	{"unknown command 'SENTINEL'", "that is no Sentinel: give the address of one, usually with port 26379, or leave out master_set"},
	{"No such master", "the Sentinels know no master of the name in master_set"},
	{"WRONGTYPE", "something else has a key of the job: purge the job, or name another"},
	{"DB index is out of range", "leave out the number behind the address"},
	{"unknown message type", "what answers there is no Redis: see that address and port are right"},
	{"DENIED Redis is running in protected mode", "the server takes nobody from outside: set a password, or protected-mode no"},
	{"max number of clients", "raise the server's maxclients"},
	{"MISCONF", "the server cannot write its snapshot, and so takes nothing in: see its log"},
	{"READONLY", "that is a replica: give the address of its master, or that of a Sentinel with ?master_set=NAME"},
}

// said adds to an error of a server what helps against it, if that is known.
func said(err error) error {
	for _, h := range hints {
		if strings.Contains(err.Error(), h.text) {
			return fmt.Errorf("%w: %s", err, h.hint)
		}
	}
	return err
}

// Verdict returns the final error of a server, with what helps against it. It returns nil if err is not from a server
// or may pass.
func Verdict(err error) error {
	var answered *rueidis.RedisError
	if !errors.As(err, &answered) || passing(answered.Error()) {
		return nil
	}
	return said(err)
}

// explain is like said, for an error that the connection itself may have caused.
func explain(err error, secure bool) error {
	if told := said(err); told != err { //nolint:errorlint // it is the same, or has more
		return told
	}
	hint := "see that the server is there"
	var record tls.RecordHeaderError
	var invalid *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &invalid):
		hint = "give the file of the authority that vouches for the server, and the name that is in its certificate"
	case errors.As(err, &record):
		hint = "the server does not speak TLS there: let the URL begin with redis://, or give its port for TLS"
	case secure && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()):
		hint = "see that the server is there, and speaks TLS at that port"
	case !secure && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)):
		hint = "the server has hung up: if it wants TLS, let the URL begin with rediss://"
	}
	return fmt.Errorf("%w: %s", err, hint)
}
