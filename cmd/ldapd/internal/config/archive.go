package config

import (
	"github.com/seed-4dac0d86/ldapd/store/archive"
	"github.com/seed-4dac0d86/ldapd/store/hbase"
)

// archive reads the settings of the store's archive.
func (r *reader) archive() Archive {
	a := Archive{
		Every: r.duration("archive.every"), Lag: r.duration("archive.lag"), Keep: r.duration("archive.keep"),
		Drill: r.duration("archive.drill"), Identity: r.text("archive.identity"),
	}
	clear := r.boolean("archive.clear")
	var err error
	if a.Seal, err = archive.ParseSeal(r.ko.Strings("archive.recipients")); err != nil {
		r.fail("archive.recipients", "%v", err)
	}
	if a.Every == 0 || a.Lag == 0 {
		r.fail("archive.every", "a time of 0 between bases (archive.every) or pieces (archive.lag) is none")
	}
	to := r.text("archive.to")
	if to == "" {
		return a
	}
	if a.Place, err = archive.OpenPlace(to); err != nil {
		r.fail("archive.to", "%v", err)
		return a
	}
	switch {
	case hbase.IsURL(r.text("store")):
		r.fail("archive.to", "only an embedded store is archived; HBase has snapshots")
	case !archive.IsFolder(a.Place) && !a.Seal.Seals() && !clear:
		r.fail("archive.to", "an archive has password hashes in it: name who can read it (archive.recipients), or say archive.clear")
	}
	return a
}

// standby reads the configuration of a standby.
func (r *reader) standby() Standby {
	s := Standby{Primary: r.list("standby.primary", checkServer)}
	from := r.text("standby.from")
	if from == "" {
		return s
	}
	var err error
	if s.From, err = archive.OpenPlace(from); err != nil {
		r.fail("standby.from", "%v", err)
		return s
	}
	if hbase.IsURL(r.text("store")) {
		r.fail("standby.from", "only an embedded store has a standby; servers of a store on HBase need none")
	}
	return s
}
