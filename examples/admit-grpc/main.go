// Command admit-grpc has limits in front of a gRPC service, by an interceptor.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/treadlight/crawl/admit"
)

// limited is the adapter: a call is let in, or fails with ResourceExhausted, which says when to come again.
func limited(a *admit.Limiter) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
		key := "nobody"
		if user := metadata.ValueFromIncomingContext(ctx, "user"); len(user) > 0 { // of your authentication
			key = user[0]
		}
		err = a.Guard(ctx, key, []string{"api"}, 1, func(ctx context.Context) (err error) {
			answer, err = handler(ctx, req)
			return err
		})
		if denied, ok := errors.AsType[*admit.DeniedError](err); ok {
			return nil, status.Errorf(codes.ResourceExhausted, "%s: again in %v", info.FullMethod, denied.Result.Wait)
		}
		return answer, err
	}
}

func serve(l net.Listener) error {
	a, err := admit.New(admit.Config{
		Plans: []admit.Plan{{Name: "api", Capacity: 2, TokensPerSecond: 1}}, Rules: []admit.Rule{},
	})
	if err != nil {
		return err
	}
	defer a.Close()
	s := grpc.NewServer(grpc.UnaryInterceptor(limited(a)))
	grpc_health_v1.RegisterHealthServer(s, health.NewServer()) // in place of a service of your own
	return s.Serve(l)
}

func main() {
	l, err := net.Listen("tcp", "localhost:8080")
	if err == nil {
		err = serve(l)
	}
	fmt.Println("error:", err)
}
