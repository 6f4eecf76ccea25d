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

// Probe returns nil if the HBase at quorum creates tables and accepts writes. It uses new
// clients, because a client that was used before HBase was up waits too long before it
// tries again.
func Probe(ctx context.Context, quorum string) error {
	quiet := gohbase.Logger(slog.New(slog.DiscardHandler))
	names := func() error {
		ctx, cancel := context.WithTimeout(ctx, 700*time.Millisecond)
		defer cancel()
		l, err := hrpc.NewListTableNames(ctx)
		if err != nil {
			return err
		}
		_, err = gohbase.NewAdminClient(quorum, quiet).ListTableNames(l)
		return err
	}
	if err := names(); err != nil {
		return fmt.Errorf("the master at %s does not answer: %w", quorum, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	create := hrpc.NewCreateTable(ctx, []byte(probeTable), map[string]map[string]string{"f": nil})
	err := gohbase.NewAdminClient(quorum, quiet).CreateTable(create)
	if err != nil && !strings.Contains(err.Error(), "TableExistsException") {
		return fmt.Errorf("creating a table: %w", err)
	}
	c := gohbase.NewClient(quorum, quiet, gohbase.RegionDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&alltime.Dialer{}).Dial(ctx, network, addr, func(net.Conn) {})
	}))
	defer c.Close()
	put, err := hrpc.NewPutStr(ctx, probeTable, "r", map[string]map[string][]byte{"f": {"q": []byte("v")}})
	if err != nil {
		return err
	}
	if _, err := c.Put(put); err != nil {
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
