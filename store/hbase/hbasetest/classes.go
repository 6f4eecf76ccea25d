package hbasetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// classData returns the name of the file with HBase's classes in the form that a JVM maps into
// memory (class data sharing, JEP 350), and reports whether the file exists. A JVM with this
// file does not parse and verify the classes. An HBase then starts with 6 s of CPU time
// instead of 10 s, and a run of all tests starts about twenty JVMs. The file fits only the
// Java that wrote it, so its name contains the modification time of the command java. A JVM
// ignores a file that does not fit.
func classData(jars string) (file string, exists bool) {
	java, err := exec.LookPath("java")
	if err != nil {
		return "", false
	}
	i, err := os.Stat(java)
	if err != nil {
		return "", false
	}
	file = filepath.Join(filepath.Dir(jars), fmt.Sprintf("classes-%d.jsa", i.ModTime().Unix()))
	_, err = os.Stat(file)
	return file, err == nil
}

// recordClasses runs an HBase that writes the file with the class data when it shuts down.
func recordClasses(ctx context.Context, jars, file string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp(filepath.Dir(file), "record")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := Config{Dir: dir, Jars: jars, Tied: true, record: filepath.Join(dir, "classes.jsa")}
	i, err := Run(ctx, c)
	if err != nil {
		return err
	}
	defer i.Kill()
	if err := Shutdown(ctx, i.Quorum()); err != nil {
		return err
	}
	select {
	case <-i.done:
		return os.Rename(c.record, file)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// classFlags returns the flags that make a JVM use or write class data, and the class path.
// The class path for writing class data must contain only jars. The class path for using class
// data must begin with these jars, so the folder with the configuration comes last there.
func (c *Config) classFlags() []string {
	jars := c.Jars + "/*"
	if c.record != "" {
		return []string{"-XX:ArchiveClassesAtExit=" + c.record, "-Xlog:cds=error", "-Xlog:cds+dynamic=error", "-cp", jars}
	}
	path := []string{"-cp", jars + ":" + filepath.Join(c.Dir, "conf")}
	if file, ok := classData(c.Jars); ok {
		path = append(path, "-XX:SharedArchiveFile="+file)
	}
	return path
}
