package hbase

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"github.com/seed-4dac0d86/ldapd/store/table"
)

// allVersions is Java's largest int. It is the VERSIONS setting of versioned tables, and
// the number of versions that a read of all versions requests.
const allVersions = 1<<31 - 1

// The time limit for calls of the master is adminPatience times the limit for other
// calls. Creating a table takes long, because the master assigns the table's regions one
// by one.
const adminPatience = 6

// master calls f with a new client of the master. It does not keep a client, because the
// master may change and such calls are rare.
func (s *Store) master(ctx context.Context, op string, name string, f func(context.Context, gohbase.AdminClient) error) error {
	c := s.conn
	if c.client.Load() == nil {
		return fmt.Errorf("hbase: %s: %w", op, table.ErrClosed)
	}
	limited, cancel := context.WithTimeout(ctx, adminPatience*c.timeout)
	defer cancel()
	// The Close of an admin client panics, so only its connections are closed.
	lines := lines{dialer: c.dialer}
	defer lines.close()
	err := f(limited, gohbase.NewAdminClient(strings.Join(c.numbers(), ","), append(c.options(), gohbase.RegionDialer(lines.dial))...))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case limited.Err() != nil:
		err = fmt.Errorf("%w: the master does not answer within %v", table.ErrUnavailable, adminPatience*c.timeout)
	default:
		err = classify(err)
	}
	return fmt.Errorf("hbase: %s %s: %w", op, name, err)
}

// spreadFrom is the number of region servers from which on a spec's Spread means that its tables are split. It
// is a variable so that tests can change it.
var spreadFrom = 2

// spreads reports whether the cluster has region servers to which regions can be spread. It returns true if the
// master does not say.
func (s *Store) spreads(ctx context.Context) bool {
	live := spreadFrom
	_ = s.master(ctx, "look up region servers", s.target.table("*"), func(_ context.Context, adm gohbase.AdminClient) error {
		status, err := adm.ClusterStatus()
		if err == nil {
			live = len(status.GetLiveServers())
		}
		return err
	})
	return live >= spreadFrom
}

// Create implements table.Store. It creates tables in parallel, because the master needs
// nearly a second for each table.
func (s *Store) Create(ctx context.Context, specs ...table.Spec) error {
	for i := range specs {
		if err := checkSpec(&specs[i]); err != nil {
			return err
		}
	}
	have, err := s.describe(ctx, "")
	if err != nil {
		return err
	}
	missing := slices.ContainsFunc(specs, func(spec table.Spec) bool { return spec.Spread && have[spec.Name] == nil })
	spreads := missing && s.spreads(ctx)
	errs := make([]error, len(specs))
	slots := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i := range specs {
		want := shapeOf(&specs[i])
		if h := have[specs[i].Name]; h != nil {
			errs[i] = s.compare(specs[i].Name, h, want)
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			keys := specs[i].Splits
			if specs[i].Spread && !spreads {
				keys = nil
			}
			errs[i] = s.create(ctx, &specs[i], want, keys)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func checkSpec(spec *table.Spec) error {
	if !nameForm.MatchString(spec.Name) {
		return fmt.Errorf("hbase: %q is no name for a table: letters, digits, '-', '.' and '_' are", spec.Name)
	}
	if len(spec.Families) == 0 {
		return fmt.Errorf("hbase: table %s has no families", spec.Name)
	}
	return nil
}

// compare returns nil if an existing table has the wanted shape. Otherwise it returns an
// error that states both shapes.
func (s *Store) compare(name string, have, want *shape) error {
	if !have.equal(want) {
		return fmt.Errorf("hbase: table %s exists with %v, wanted are %v", s.target.table(name), have, want)
	}
	s.know(map[string]*shape{name: have})
	return nil
}

func (s *Store) create(ctx context.Context, spec *table.Spec, want *shape, keys [][]byte) error {
	full := s.target.table(spec.Name)
	err := s.master(ctx, "create table", full, func(ctx context.Context, adm gohbase.AdminClient) error {
		return adm.CreateTable(hrpc.NewCreateTable(ctx, []byte(full), familyAttributes(want), hrpc.SplitKeys(splits(keys))))
	})
	if err == nil {
		s.know(map[string]*shape{spec.Name: want})
		return nil
	}
	// The table may exist now although the call failed. Perhaps another server created it
	// first. Perhaps gohbase repeated the call, and the first call had created the table.
	// Perhaps the call timed out but was executed.
	have, derr := s.describe(ctx, spec.Name)
	if derr != nil || have[spec.Name] == nil {
		return err
	}
	return s.compare(spec.Name, have[spec.Name], want)
}

func shapeOf(spec *table.Spec) *shape {
	h := &shape{unversioned: spec.Unversioned}
	for _, f := range spec.Families {
		h.families = append(h.families, f.Name)
	}
	slices.Sort(h.families)
	h.families = slices.Compact(h.families)
	return h
}

func familyAttributes(h *shape) map[string]map[string]string {
	versions := allVersions
	if h.unversioned {
		versions = 1
	}
	fams := make(map[string]map[string]string, len(h.families))
	for _, f := range h.families {
		fams[familyName(f)] = map[string]string{
			"VERSIONS":            strconv.Itoa(versions),
			"BLOOMFILTER":         "ROW",
			"DATA_BLOCK_ENCODING": "FAST_DIFF",
			"KEEP_DELETED_CELLS":  "FALSE",
		}
	}
	return fams
}

func familyName(f table.Family) string { return string([]byte{byte(f)}) }

// splits sorts split keys and drops the keys that HBase refuses: empty keys and
// duplicates.
func splits(keys [][]byte) [][]byte {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, slices.Compare)
	keys = slices.CompactFunc(keys, func(a, b []byte) bool { return string(a) == string(b) })
	return slices.DeleteFunc(keys, func(k []byte) bool { return len(k) == 0 })
}

// Drop implements table.Store.
func (s *Store) Drop(ctx context.Context, names ...string) error {
	var errs []error
	for _, n := range names {
		errs = append(errs, s.drop(ctx, s.target.table(n)))
	}
	s.forget(names)
	return errors.Join(errs...)
}

func (s *Store) drop(ctx context.Context, full string) error {
	return s.master(ctx, "drop table", full, func(ctx context.Context, adm gohbase.AdminClient) error {
		err := adm.DisableTable(hrpc.NewDisableTable(ctx, []byte(full)))
		if err != nil && !isException(err, "TableNotEnabledException") {
			return unlessMissing(err)
		}
		return unlessMissing(adm.DeleteTable(hrpc.NewDeleteTable(ctx, []byte(full))))
	})
}

func unlessMissing(err error) error {
	if err != nil && isException(err, "TableNotFoundException") {
		return nil
	}
	return err
}

// Names implements table.Store.
func (s *Store) Names(ctx context.Context) ([]string, error) {
	all, err := s.describe(ctx, "")
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(all))
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

// describe returns the shapes of the store's tables. If name is not empty, it returns
// only the shape of the table with that name.
func (s *Store) describe(ctx context.Context, name string) (map[string]*shape, error) {
	pattern := regexp.QuoteMeta(s.target.table(name))
	if name == "" {
		pattern += ".*"
	}
	var schemas []*pb.TableSchema
	err := s.master(ctx, "look up tables", s.target.table("*"), func(ctx context.Context, adm gohbase.AdminClient) error {
		raw, ok := adm.(gohbase.RPCClient)
		if !ok {
			return errors.New("this gohbase has no raw calls")
		}
		m, err := raw.SendRPC(&describeCall{hrpc.NewGetProcedureState(ctx, 0), pattern})
		if err != nil {
			return err
		}
		schemas = m.(*pb.GetTableDescriptorsResponse).GetTableSchema()
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := make(map[string]*shape, len(schemas))
	for _, t := range schemas {
		if n, ok := strings.CutPrefix(string(t.GetTableName().GetQualifier()), s.target.table("")); ok {
			all[n] = readShape(t)
		}
	}
	return all, nil
}

func readShape(t *pb.TableSchema) *shape {
	h := &shape{unversioned: true}
	for _, f := range t.GetColumnFamilies() {
		if len(f.GetName()) == 1 {
			h.families = append(h.families, table.Family(f.GetName()[0]))
		}
		for _, a := range f.GetAttributes() {
			if string(a.GetFirst()) == "VERSIONS" && string(a.GetSecond()) != "1" {
				h.unversioned = false
			}
		}
	}
	slices.Sort(h.families)
	return h
}

// A describeCall is a call of MasterService.GetTableDescriptors, which gohbase does not
// provide. The embedded call provides all methods except those that return the name and
// the messages.
type describeCall struct {
	*hrpc.GetProcedureState
	pattern string
}

func (*describeCall) Name() string        { return "GetTableDescriptors" }
func (*describeCall) Description() string { return "GetTableDescriptors" }

// ToProto names no namespace: for all tables of a namespace, the master reads its folder, but it
// has all tables of all namespaces in memory. The pattern matches only tables of the namespace
// default, as the names of other tables begin with a namespace and a colon.
func (d *describeCall) ToProto() proto.Message {
	return &pb.GetTableDescriptorsRequest{Regex: &d.pattern}
}

func (*describeCall) NewResponse() proto.Message { return &pb.GetTableDescriptorsResponse{} }
