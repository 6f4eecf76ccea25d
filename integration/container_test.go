package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	godiff "github.com/google/go-cmp/cmp"
)

// TestContainer builds the image of the Containerfile, with this program instead of its first stage, and runs the
// image as a container runtime would: read-only, as its user, in namespaces of its own.
func TestContainer(t *testing.T) {
	wantMounts(t)
	wantPrograms(t, "/usr/bin/buildah", "/sbin/ip", "/usr/bin/ldapwhoami", "/etc/ssl/certs/ca-certificates.crt")
	dir := t.TempDir()
	buildah := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("buildah", append([]string{"--root", dir + "/root", "--runroot", dir + "/run", "--storage-driver", "vfs"}, args...)...)
		cmd.Env = append(os.Environ(), "BUILDAH_ISOLATION=chroot")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("buildah %s: %v", args[0], err)
		}
		return strings.TrimSpace(string(out))
	}
	stage := filepath.Join(dir, "stage") // what the first stage makes
	for file, from := range map[string]string{"out/ldapd": ldapd(t), "etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt"} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(writeIn(t, stage, file, string(text)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"out/data", "out/seed"} {
		if err := os.Mkdir(filepath.Join(stage, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	context := t.TempDir()
	if err := exec.Command("cp", "-r", "../LICENSE", "../THIRD-PARTY", context).Run(); err != nil {
		t.Fatal(err)
	}
	buildah("bud", "--format", "docker", "--build-context", "build="+stage, "-f", "../deploy/container/Containerfile", "-t", "ldapd", context)
	container := buildah("from", "ldapd")
	tree := buildah("mount", container)
	defer buildah("umount", container)

	var image struct {
		Docker struct {
			Config struct {
				User                 string
				Env, Entrypoint, Cmd []string
				Healthcheck          struct{ Test []string }
			} `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(buildah("inspect", "--type", "image", "ldapd")), &image); err != nil {
		t.Fatal(err)
	}
	config := image.Docker.Config
	quoted := func(words []string) string { return "'" + strings.Join(words, "' '") + "'" }
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--pid", "--uts", "--fork", "--kill-child", "sh", "testdata/programs/container.sh")
	cmd.Env = append(os.Environ(), "TREE="+tree, "IMAGEUSER="+config.User, "IMAGEENV="+quoted(config.Env),
		"START="+quoted(append(config.Entrypoint, config.Cmd...)), "HEALTH="+quoted(config.Healthcheck.Test[1:]))
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	want := `healthy
dn:cn=admin,dc=example,dc=com
dn: uid=jdoe,dc=example,dc=com
restarted
dn: uid=jdoe,dc=example,dc=com
/seed/2.ldif:9: "uid=nobody,ou=none,dc=example,dc=com": there is no entry ou=none,dc=example,dc=com to add it below: add that entry too
files: 0
`
	if diff := godiff.Diff(want, string(out)); err != nil || diff != "" {
		t.Errorf("%v (- wanted, + the container):\n%s\n%s", err, diff, log.String())
	}
}
