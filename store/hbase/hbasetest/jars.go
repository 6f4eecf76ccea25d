package hbasetest

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// VersionEnv is the environment variable with the HBase version that tests and development use, as Maven
// names it: 2.4.18, or 2.5.13-hadoop3.
const VersionEnv = "HBASE"

const defaultVersion = "2.6.4-hadoop3"

// Version returns the HBase version that tests use.
func Version() string { return cmp.Or(os.Getenv(VersionEnv), defaultVersion) }

// pom specifies the jars of a version.
//
//go:embed pom.xml
var pom []byte

// folder returns the name of the folder of the version's jars. It changes when the pom does.
func folder() string { return Version() + "-bare" }

// Needs returns an error that says what the machine lacks to run HBase, or nil.
func Needs() error {
	if _, err := exec.LookPath("java"); err != nil {
		return errors.New("java is not installed (a Java 17 runtime is needed)")
	}
	if _, err := jarDir(); err == nil {
		return nil
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return errors.New("mvn is not installed and the jars of HBase are not in the cache")
	}
	return nil
}

func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "ldapd-hbase")
	return dir, os.MkdirAll(dir, 0o755)
}

// jarDir returns the folder of the jars. It returns an error if jars are missing.
func jarDir() (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, folder())
	_, err = os.Stat(filepath.Join(dir, "complete"))
	return filepath.Join(dir, "lib"), err
}

// Jars returns the folder with the jars of HBase. The first time, Maven downloads them, and
// an HBase records its classes (see classData).
func Jars(ctx context.Context) (string, error) {
	if dir, err := jarDir(); err == nil {
		if _, ok := classData(dir); ok {
			return dir, nil
		}
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	f, err := lock(ctx, filepath.Join(cache, "jars.lock"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	dir, err := jarDir()
	if err != nil {
		if dir, err = fetch(ctx, filepath.Join(cache, folder())); err != nil {
			return "", err
		}
	}
	if file, ok := classData(dir); !ok {
		_ = recordClasses(ctx, dir, file) // without the file, HBase only starts more slowly
	}
	return dir, nil
}

func fetch(ctx context.Context, dir string) (string, error) {
	lib := filepath.Join(dir, "lib")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "mvn", "-B", "-ntp", "-q", "-f", filepath.Join(dir, "pom.xml"),
		"-Dhbase="+Version(), "dependency:copy-dependencies", "-DoutputDirectory="+lib)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn could not fetch the jars of HBase %s: %w\n%s", Version(), err, out)
	}
	return lib, os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644)
}

// lock locks one of the named files and returns it. It creates files that do not exist.
// It waits while other processes have locked all of the files. The lock lasts until the
// file is closed or the process ends.
func lock(ctx context.Context, names ...string) (*os.File, error) {
	for {
		for _, name := range names {
			f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
			if err != nil {
				return nil, err
			}
			if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				return f, nil
			}
			f.Close()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("other processes hold %s: %w", strings.Join(names, " and "), ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
