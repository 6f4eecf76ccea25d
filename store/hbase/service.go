package hbase

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/region"
	"google.golang.org/protobuf/proto"
)

// A service is a connection to one of the services of a server of HBase that gohbase does not call.
type service struct {
	line    hrpc.RegionClient
	timeout time.Duration // of a call
}

func (c *conn) service(ctx context.Context, server, name string, timeout time.Duration) (*service, error) {
	var reason error // gohbase only logs it
	line := region.NewClient(server, region.ClientType(name), &region.RegionClientOptions{
		QueueSize: 1, EffectiveUser: c.user, ReadTimeout: timeout,
		Logger: slog.New(debugOnly{c.log.Handler()}),
		Dialer: func(ctx context.Context, network, addr string) (line net.Conn, err error) {
			line, reason = c.dialer.Dial(ctx, network, addr, func(net.Conn) {})
			return line, reason
		},
	})
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := line.Dial(ctx); err != nil {
		return nil, cmp.Or(reason, err)
	}
	return &service{line, timeout}, nil
}

// A serviceCall is a call of a service. It overrides the methods that return the
// name and the messages. The embedded call provides all other methods.
type serviceCall struct {
	*hrpc.GetProcedureState
	name              string
	request, response proto.Message
}

func (c *serviceCall) Name() string               { return c.name }
func (c *serviceCall) Description() string        { return c.name }
func (c *serviceCall) ToProto() proto.Message     { return c.request }
func (c *serviceCall) NewResponse() proto.Message { return c.response }

func (s *service) call(ctx context.Context, name string, request, response proto.Message) (proto.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	c := &serviceCall{hrpc.NewGetProcedureState(ctx, 0), name, request, response}
	s.line.QueueRPC(c)
	select {
	case r := <-c.ResultChan():
		if r.Error != nil {
			return nil, fmt.Errorf("%s: %w", name, r.Error)
		}
		return r.Msg, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
}
