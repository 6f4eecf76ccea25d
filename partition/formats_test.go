package partition_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/verify"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// eachFormat runs a test on each engine and each format of rows, on a store without a directory.
func eachFormat(t *testing.T, f func(t *testing.T, s table.Store, format int)) {
	for _, format := range []int{catalog.FormatNames, catalog.FormatCodes} {
		for name, open := range stores {
			t.Run(fmt.Sprintf("%s %d", name, format), func(t *testing.T) { f(t, open(t), format) })
		}
	}
}

// setHeader changes fields of the store's header.
func setHeader(t *testing.T, s table.Store, fields map[string]any) {
	t.Helper()
	ctx := context.Background()
	row, err := s.Table("directory").Get(ctx, []byte("header"), table.Select{})
	must(t, err)
	c := row.Clone().Cells[0]
	h := map[string]any{}
	must(t, json.Unmarshal(c.Value, &h))
	for k, v := range fields {
		h[k] = v
	}
	old := c.Value
	c.Value, err = json.Marshal(h)
	must(t, err)
	ok, err := s.Table("directory").Swap(ctx, row.Key, c.Family, c.Qualifier, old, []table.Cell{c})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
}

// TestFormats checks that a store keeps the format with which it was made, that its rows have that format, and that a
// store of a newer version is refused and stays as it is.
func TestFormats(t *testing.T) {
	eachFormat(t, func(t *testing.T, s table.Store, format int) {
		ctx := t.Context()
		p, err := partition.Open(ctx, s, partition.Options{Create: true, Schema: tagged, Format: format})
		must(t, err)
		loadSample(t, p, 3)
		must(t, p.Close(ctx))
		for _, newer := range []map[string]any{{"format": 3}, {"codes": schema.Codes() + 1}} {
			setHeader(t, s, newer)
			_, err := partition.Open(ctx, s, partition.Options{Schema: tagged})
			if !errors.Is(err, table.ErrNewer) {
				t.Errorf("%v: %v", newer, err)
			}
			if _, err := verify.Rebuild(ctx, s, partition.Options{}, verify.ReindexOptions{}); !errors.Is(err, table.ErrNewer) {
				t.Errorf("rebuild, %v: %v", newer, err)
			}
			codes := 0
			if format == catalog.FormatCodes {
				codes = schema.Codes()
			}
			setHeader(t, s, map[string]any{"format": format, "codes": codes})
		}
		p, err = partition.Open(ctx, s, partition.Options{Schema: tagged}) // the format of new stores is another
		must(t, err)
		defer p.Close(ctx)
		if now, newest := p.RowFormats(); now != format || newest != catalog.FormatCodes {
			t.Errorf("formats %d and %d, want %d", now, newest, format)
		}
		must(t, add(t, p, "cn=late,"+domain, "objectClass: person", "sn: Late", "description;x-a: tagged"))
		must(t, modify(t, p, "uid=u1,ou=people,"+domain, change(op.ModReplace, "sn", []byte("Late"))))
		if got := searched(t, p, domain, op.WholeSubtree, "(&(objectClass=person)(sn=late))"); len(got) != 2 {
			t.Errorf("found %q", got)
		}
		wantSound(t, p)
		// Programs that know no codes refuse this list of indexes.
		for _, tbl := range []string{"directory", "config"} {
			for row, err := range s.Table(tbl).Scan(ctx, table.Range{}, table.Select{}) {
				must(t, err)
				for i := range row.Cells {
					if has := strings.Contains(string(row.Cells[i].Value), `"indexes":[{"attribute":"objectClass","layout":"of format 2"`); has != (format == catalog.FormatCodes) && row.Cells[i].Family == 'h' {
						t.Errorf("%s has %s", tbl, row.Cells[i].Value)
					}
				}
			}
		}
		names := []string{"2.5.4.3", "0.9.2342", "description"} // of cn, uid and description
		for _, tbl := range []string{"master", "tree"} {
			written := 0
			for row, err := range s.Table(tbl).Scan(ctx, table.Range{}, table.Select{}) {
				must(t, err)
				text := string(row.Key)
				for i := range row.Cells {
					text += " " + string(row.Cells[i].Qualifier)
				}
				if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(text, n) }) {
					written++
				}
			}
			if (written > 0) != (format == catalog.FormatNames) {
				t.Errorf("format %d: %d rows of %s have OIDs or names", format, written, tbl)
			}
		}
	})
}

// TestFewerCodes opens a store of a version that knew fewer codes, and checks that the others are not used in it.
func TestFewerCodes(t *testing.T) {
	ctx := t.Context()
	s := stores["batches"](t)
	p, err := partition.Open(ctx, s, partition.Options{Create: true})
	must(t, err)
	must(t, p.Close(ctx)) // without entries, which were written with all codes
	setHeader(t, s, map[string]any{"codes": 2})
	p, err = partition.Open(ctx, s, partition.Options{Schema: tagged})
	must(t, err)
	defer p.Close(ctx)
	loadSample(t, p, 20)
	if codes := p.Schema().Codes(); codes != 2 {
		t.Errorf("%d codes", codes)
	}
	if got := searched(t, p, domain, op.WholeSubtree, "(&(objectClass=inetOrgPerson)(uid=u7)(cn=*))"); len(got) != 1 {
		t.Errorf("found %q", got)
	}
	wantSound(t, p)
}

// TestKeyless finds, changes and moves entries by attributes that have no keys in the tree of new stores, with and without
// indexes of them.
func TestKeyless(t *testing.T) {
	stamps := []string{"createTimestamp", "creatorsName", "modifiersName", "modifyTimestamp", "structuralObjectClass"}
	eachFormat(t, func(t *testing.T, s table.Store, format int) {
		ctx := t.Context()
		p, err := partition.Open(ctx, s, partition.Options{Create: true, Schema: tagged, Format: format})
		must(t, err)
		defer p.Close(ctx)
		loadSample(t, p, 6)
		look := func() {
			t.Helper()
			for f, want := range map[string]int{
				"(&(createTimestamp=*)(uid=u1))":                             1,
				"(&(createTimestamp>=19700101000000Z)(objectClass=*))":       -1,
				"(!(createTimestamp=*))":                                     0,
				"(creatorsName=cn=nobody)":                                   0,
				"(&(structuralObjectClass=inetOrgPerson)(uid=*))":            -2,
				"(&(uid=u1)(!(structuralObjectClass=inetOrgPerson)))":        0,
				"(|(uid=u1)(entryCSN=*))":                                    -1,
				"(modifiersName=uid=u2,ou=people," + domain + ")":            0,
				"(&(structuralObjectClass=2.16.840.1.113730.3.2.2)(uid=u1))": 1,
			} {
				got := searched(t, p, domain, op.WholeSubtree, f)
				switch all := searched(t, p, domain, op.WholeSubtree, "(objectClass=*)"); want {
				case -1:
					want = len(all)
				case -2:
					want = len(searched(t, p, domain, op.WholeSubtree, "(uid=*)"))
				}
				if len(got) != want {
					t.Errorf("%s: %q, want %d", f, got, want)
				}
			}
			at := state.Newest(p)
			defer at.Close()
			id := idOf(t, p, "uid=u1,ou=people,"+domain)
			if same, err := at.Compare(ctx, id, "structuralObjectClass", []byte("inetOrgPerson")); err != nil || !same {
				t.Errorf("compare: %v, %v", same, err)
			}
			wantSound(t, p)
		}
		look()
		config := p.Config().Indexes
		for _, a := range stamps {
			config = append(config, catalog.Index{Attribute: a})
		}
		must(t, onlineschema.SetIndexes(ctx, p, config))
		look()
		must(t, modify(t, p, "uid=u1,ou=people,"+domain, change(op.ModReplace, "sn", []byte("x"))))
		relaxed := partition.Rules{Relaxed: true, Kept: true}
		must(t, byRules(t, p, relaxed, "uid=u2,ou=people,"+domain, change(op.ModReplace, "createTimestamp", []byte("20200101000000Z")),
			change(op.ModReplace, "creatorsName", []byte("cn=maker"))))
		if got := searched(t, p, domain, op.WholeSubtree, "(&(createTimestamp=20200101000000Z)(creatorsName=CN=Maker))"); len(got) != 1 {
			t.Errorf("after a change: %q", got)
		}
		above := name(domain)
		must(t, update(t, p, func(tx *partition.Tx) error {
			return tx.Rename(ctx, name("uid=u2,ou=people,"+domain), name("uid=moved")[0], true, &above)
		}))
		must(t, remove(t, p, "uid=u3,ou=people,"+domain))
		look()
		must(t, remove(t, p, "uid=moved,"+domain))
		look()
		must(t, onlineschema.SetIndexes(ctx, p, config[:len(config)-len(stamps)]))
		look()
	})
}
