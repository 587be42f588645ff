package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/treadlight/crawl/examples/internal/check"
)

func TestOutput(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan error)
	go func() { over <- serve(l) }()
	defer func() { _ = l.Close(); <-over }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var out strings.Builder
	for _, user := range []string{"ann", "ann", "ann", "bob"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "user", user)
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		_, _ = fmt.Fprintln(&out, user, status.Code(err))
	}
	check.Text(t, "admit-grpc", out.String())
}
