package write

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/master"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// Secret attributes have no history, but an entry that is deleted by mistake must come back with
// its password. So the message of a commit that deletes entries contains their secret attributes,
// sealed: encrypted with a key that is derived from the store's secret. The journal is kept as long
// as history is, and an erasure removes what it must from messages (docs/decisions/0046).

// Sealed contains the sealed secret attributes of deleted entries. It is nil in the message of a
// commit that deleted nothing, or that an older program made.
type Sealed map[entry.ID]string

// sealedKind begins the line of a message that contains sealed attributes.
const sealedKind = "sealed"

func (s Sealed) append(b []byte) []byte {
	if s == nil {
		return b
	}
	b = append(append(b, '\n'), sealedKind...)
	for _, id := range slices.SortedFunc(maps.Keys(s), entry.ID.Compare) {
		b = append(append(append(append(b, ' '), id.String()...), ':'), s[id]...)
	}
	return b
}

// parse adds the fields of a line.
func (s *Sealed) parse(fields string) {
	if *s == nil {
		*s = Sealed{}
	}
	for field := range strings.FieldsSeq(fields) {
		name, text, _ := strings.Cut(field, ":")
		if id, err := entry.ParseID(name); err == nil {
			(*s)[id] = text
		}
	}
}

var selectSecrets = table.Select{Families: []table.Family{master.Secrets}}

// seal adds the secret attributes of entries to the message. It is called before the entries are
// deleted.
func (tx *Tx) seal(ctx context.Context, ids ...entry.ID) error {
	keys := make([][]byte, len(ids))
	for i := range ids {
		keys[i] = master.Row(ids[i])
	}
	rows, err := tx.Reader.GetMany(ctx, tx.Partition.Master, keys, selectSecrets)
	if err != nil {
		return err
	}
	s := Sealed{}
	for i, row := range rows {
		attributes, err := master.Decode(row, tx.Catalog.Schema)
		if err != nil || len(attributes) == 0 {
			if err != nil {
				return err
			}
			continue
		}
		if err := s.put(ctx, tx.Partition, ids[i], attributes); err != nil {
			if errors.Is(err, table.ErrUnavailable) {
				return nil // a full disk: the deletion makes room, and must not fail
			}
			return err
		}
	}
	tx.Message = s.append(tx.Message)
	return nil
}

// put seals the attributes of an entry. Without attributes, it removes the entry.
func (s Sealed) put(ctx context.Context, p *catalog.Partition, id entry.ID, attributes []entry.Attribute) error {
	if len(attributes) == 0 {
		delete(s, id)
		return nil
	}
	key, err := sealer(ctx, p)
	if err != nil {
		return err
	}
	list := make([]op.PartialAttribute, len(attributes))
	for i := range attributes {
		list[i] = op.PartialAttribute{Description: attributes[i].Description(), Values: attributes[i].Values}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	nonce := make([]byte, key.NonceSize())
	rand.Read(nonce)
	s[id] = base64.RawURLEncoding.EncodeToString(key.Seal(nonce, nonce, text, id[:]))
	return nil
}

// Open returns the secret attributes that an entry had when it was deleted. It omits attributes
// whose types are not in the schema any more, or are not secret any more.
func (s Sealed) Open(ctx context.Context, c *catalog.Catalog, p *catalog.Partition, id entry.ID) ([]entry.Attribute, error) {
	text, ok := s[id]
	if !ok {
		return nil, nil
	}
	key, err := sealer(ctx, p)
	if err != nil {
		return nil, err
	}
	box, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(box) < key.NonceSize() {
		return nil, fmt.Errorf("the sealed secrets of entry %s: %w", id, table.ErrCorrupt)
	}
	plain, err := key.Open(nil, box[:key.NonceSize()], box[key.NonceSize():], id[:])
	if err != nil {
		return nil, fmt.Errorf("the secrets of entry %s were not sealed by this store: %w", id, table.ErrCorrupt)
	}
	var list []op.PartialAttribute
	if err := json.Unmarshal(plain, &list); err != nil {
		return nil, err
	}
	var attributes []entry.Attribute
	for _, a := range list {
		if t, options, err := c.Describe(a.Description); err == nil && t.Secret() {
			attributes = append(attributes, entry.Attribute{Type: t, Options: options, Values: a.Values})
		}
	}
	return attributes, nil
}

// Redact removes the values for which the function goes returns true. It reports whether s changed.
func (s Sealed) Redact(ctx context.Context, c *catalog.Catalog, p *catalog.Partition, goes func(*schema.AttributeType, []byte) bool) (changed bool, err error) {
	for id := range maps.Clone(s) {
		attributes, err := s.Open(ctx, c, p, id)
		lost := errors.Is(err, table.ErrCorrupt) // nobody can open it
		if err != nil && !lost {
			return changed, err
		}
		for i := range attributes {
			a := &attributes[i]
			n := len(a.Values)
			a.Values = slices.DeleteFunc(a.Values, func(v []byte) bool { return goes(a.Type, v) })
			lost = lost || len(a.Values) < n
		}
		if !lost {
			continue
		}
		changed = true
		rest := slices.DeleteFunc(attributes, func(a entry.Attribute) bool { return len(a.Values) == 0 })
		if err := s.put(ctx, p, id, rest); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// sealer returns the key that seals secrets.
func sealer(ctx context.Context, p *catalog.Partition) (cipher.AEAD, error) {
	if key := p.Sealer.Load(); key != nil {
		return *key, nil
	}
	secret, err := storedSecret(ctx, p)
	if err != nil {
		return nil, err
	}
	sub, err := hkdf.Key(sha256.New, secret, nil, "secrets of deleted entries", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(sub)
	if err != nil {
		return nil, err
	}
	key, err := cipher.NewGCM(block)
	if err == nil {
		p.Sealer.Store(&key)
	}
	return key, err
}

// A Deletion is what the journal knows of the deletion of an entry.
type Deletion struct {
	// Shown is the first revision whose state shows the deletion: the revision of the commit, or of
	// the merge of its branch.
	Shown table.Revision
	// Secrets are the secret attributes that the entry had. Known is not set if the journal does
	// not have them, because an older program deleted the entry.
	Secrets []entry.Attribute
	Known   bool
}

// DeletionOf returns the last deletion of an entry that s shows. It returns nil if nothing is known
// of a deletion: the entry was never deleted, or the history of the deletion has been collected.
func DeletionOf(ctx context.Context, s *state.Snapshot, id entry.ID) (*Deletion, error) {
	last, err := s.Deleted(ctx, id)
	if last == 0 || err != nil {
		return nil, err
	}
	rec, err := s.Partition.DB.Record(ctx, last)
	if err != nil {
		return nil, err
	}
	d := &Deletion{Shown: s.At.ShownBy(last)}
	if m := ParseMessage(rec.Message); m.Sealed != nil {
		d.Known = true
		d.Secrets, err = m.Sealed.Open(ctx, s.Catalog, s.Partition, id)
	}
	if errors.Is(err, table.ErrCorrupt) {
		d.Known, err = false, nil
	}
	return d, err
}
