package cli

import "runtime/debug"

// built is the version that the Makefile sets: a tag, or a commit and its distance from
// a tag.
var built string

// Version returns the version of this binary: the version that the Makefile set, the
// module's version, or the commit of the work tree from which the binary was built.
func Version() string {
	if built != "" {
		return built
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "devel"
}
