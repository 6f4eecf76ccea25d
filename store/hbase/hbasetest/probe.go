package hbasetest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/hbase/internal/alltime"
)

// probeTable is the table that Probe creates and does not delete.
const probeTable = "hbasetest-probe"

// clientOptions returns options for clients of the instance.
func (c *Config) clientOptions() []gohbase.Option {
	o := []gohbase.Option{gohbase.Logger(slog.New(slog.DiscardHandler))}
	if c.Dial != nil {
		return append(o, gohbase.RegionDialer(c.Dial), gohbase.ZooKeeperDialer(c.DialZooKeeper), gohbase.EffectiveUser(c.User))
	}
	return append(o, gohbase.RegionDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&alltime.Dialer{}).Dial(ctx, network, addr, func(net.Conn) {})
	}))
}

// Probe returns nil if the instance creates tables and accepts writes.
func (i *Instance) Probe(ctx context.Context) error { return i.c.probe(ctx) }

// probe returns nil if HBase creates tables and accepts writes. It uses new clients, because
// a client that was used before HBase was up waits too long before it tries again.
func (c *Config) probe(ctx context.Context) error {
	quorum, options := c.quorum(), c.clientOptions()
	names := func() error {
		ctx, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
		defer cancel()
		l, err := hrpc.NewListTableNames(ctx)
		if err != nil {
			return err
		}
		_, err = gohbase.NewAdminClient(quorum, options...).ListTableNames(l)
		return err
	}
	if err := names(); err != nil {
		return fmt.Errorf("the master at %s does not answer: %w", quorum, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	create := hrpc.NewCreateTable(ctx, []byte(probeTable), map[string]map[string]string{"f": nil})
	err := gohbase.NewAdminClient(quorum, options...).CreateTable(create)
	if err != nil && !strings.Contains(err.Error(), "TableExistsException") {
		return fmt.Errorf("creating a table: %w", err)
	}
	cl := gohbase.NewClient(quorum, options...)
	defer cl.Close()
	put, err := hrpc.NewPutStr(ctx, probeTable, "r", map[string]map[string][]byte{"f": {"q": []byte("v")}})
	if err != nil {
		return err
	}
	if _, err := cl.Put(put); err != nil {
		return fmt.Errorf("writing to a table: %w", err)
	}
	return nil
}

// Shutdown asks the master at quorum to shut the cluster down cleanly.
func Shutdown(ctx context.Context, quorum string) error {
	c, ok := gohbase.NewAdminClient(quorum, gohbase.Logger(slog.New(slog.DiscardHandler))).(gohbase.RPCClient)
	if !ok {
		return fmt.Errorf("this gohbase has no raw calls")
	}
	_, err := c.SendRPC(shutdown{hrpc.NewGetProcedureState(ctx, 0)})
	return err
}

// shutdown is the call MasterService.Shutdown, which gohbase lacks. The embedded call
// provides all methods except those that return the name and the messages.
type shutdown struct{ *hrpc.GetProcedureState }

func (shutdown) Name() string               { return "Shutdown" }
func (shutdown) Description() string        { return "Shutdown" }
func (shutdown) ToProto() proto.Message     { return &pb.ShutdownRequest{} }
func (shutdown) NewResponse() proto.Message { return &pb.ShutdownResponse{} }
