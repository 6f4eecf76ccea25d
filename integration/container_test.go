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

// An image is the image of the Containerfile.
type image struct {
	tree                 string // a folder with its files
	User                 string
	Env, Entrypoint, Cmd []string
	Healthcheck          struct{ Test []string }
}

// buildImage builds the image, with this program instead of its first stage. It skips the test if that is not possible here.
func buildImage(t *testing.T) *image {
	t.Helper()
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
	copies := exec.Command("cp", "--parents", "LICENSE", "THIRD-PARTY", "deploy/container/ldapd.yaml", context)
	copies.Dir = ".."
	if err := copies.Run(); err != nil {
		t.Fatal(err)
	}
	buildah("bud", "--format", "docker", "--build-context", "build="+stage, "-f", "../deploy/container/Containerfile", "-t", "ldapd", context)
	container := buildah("from", "ldapd")
	tree := buildah("mount", container)
	t.Cleanup(func() { buildah("umount", container) })

	var inspected struct {
		Docker struct {
			Config image `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(buildah("inspect", "--type", "image", "ldapd")), &inspected); err != nil {
		t.Fatal(err)
	}
	made := inspected.Docker.Config
	made.tree = tree
	return &made
}

// quoted returns words as a shell reads them.
func quoted(words []string) string { return "'" + strings.Join(words, "' '") + "'" }

// TestContainer runs the image as a container runtime would: read-only, as its user, in namespaces of its own.
func TestContainer(t *testing.T) {
	config := buildImage(t)
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--pid", "--uts", "--fork", "--kill-child", "sh", "testdata/programs/container.sh")
	cmd.Env = append(os.Environ(), "TREE="+config.tree, "IMAGEUSER="+config.User, "IMAGEENV="+quoted(config.Env),
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
