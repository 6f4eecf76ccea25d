// Package deps is scaffolding: it keeps go.mod complete while packages are being written. It goes before release.
package deps

import (
	_ "github.com/cockroachdb/datadriven"
	_ "github.com/cockroachdb/pebble/v2"
	_ "github.com/go-crypt/crypt"
	_ "github.com/go-ldap/ldap/v3"
	_ "github.com/goccy/go-yaml"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/google/uuid"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/knadh/koanf/v2"
	_ "github.com/maypok86/otter/v2"
	_ "github.com/nmcclain/ldap"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "github.com/tsuna/gohbase"
	_ "github.com/vbauerster/mpb/v8"
	_ "golang.org/x/crypto/argon2"
	_ "golang.org/x/text/unicode/norm"
	_ "pgregory.net/rapid"
)
