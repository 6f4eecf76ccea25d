package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// A bucket is a place in an object store with the S3 protocol.
type bucket struct {
	client *minio.Client
	name   string
	prefix string // with a slash at its end, or ""
	text   string
}

// partSize is the size of the parts of a multipart upload. A multipart upload has at most
// 10,000 parts, so an object has at most 156 GiB.
const partSize = 16 << 20

// smallObject is the size below which an object is sent in one request.
const smallObject = 1 << 20

// openS3 opens the bucket that s3://ENDPOINT/BUCKET/PREFIX names. If the URL begins with
// s3+http://, openS3 does not use TLS. The access keys come from the environment,
// ~/.aws/credentials or the machine's role.
func openS3(text string) (Place, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	name, prefix, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if u.Host == "" || name == "" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("%q is not s3://ENDPOINT/BUCKET/PREFIX", text)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	c, err := minio.New(u.Host, &minio.Options{
		Secure: u.Scheme == "s3",
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.EnvMinio{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
		MaxRetries: 3,
	})
	if err != nil {
		return nil, err
	}
	return &bucket{c, name, prefix, text}, nil
}

// String implements Place.
func (b *bucket) String() string { return b.text }

// List implements Place.
func (b *bucket) List(ctx context.Context, prefix string) ([]Object, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []Object
	for o := range b.client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, b.wrap("list", prefix, o.Err)
		}
		all = append(all, Object{strings.TrimPrefix(o.Key, b.prefix), o.Size})
	}
	slices.SortFunc(all, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return all, ctx.Err()
}

// Get implements Place.
func (b *bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	o, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err == nil {
		_, err = o.Stat() // GetObject does not send the request; Stat does
	}
	if err != nil {
		return nil, b.wrap("get", name, err)
	}
	return o, nil
}

// Put implements Place.
func (b *bucket) Put(ctx context.Context, name string, r io.Reader) error {
	r, size, err := sized(r)
	if err != nil {
		return err
	}
	// Names and manifests contain hashes of the content, so no other hash is needed.
	_, err = b.client.PutObject(ctx, b.name, b.prefix+name, r, size, minio.PutObjectOptions{PartSize: partSize, DisableContentSha256: true})
	return b.wrap("put", name, err)
}

// sized returns a reader of the content of r, and the size of that content. If the size
// is not below smallObject, sized returns -1 as the size.
func sized(r io.Reader) (io.Reader, int64, error) {
	start, err := io.ReadAll(io.LimitReader(r, smallObject))
	switch {
	case err != nil:
		return nil, 0, err
	case len(start) < smallObject:
		return bytes.NewReader(start), int64(len(start)), nil
	}
	return io.MultiReader(bytes.NewReader(start), r), -1, nil
}

// Read implements Place.
func (b *bucket) Read(ctx context.Context, name string) ([]byte, string, error) {
	o, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", b.wrap("get", name, err)
	}
	defer o.Close()
	text, err := io.ReadAll(io.LimitReader(o, 1<<20))
	if err != nil {
		return nil, "", ignoreMissing(b.wrap("get", name, err))
	}
	info, err := o.Stat()
	return text, info.ETag, b.wrap("get", name, err)
}

// Swap implements Place.
func (b *bucket) Swap(ctx context.Context, name, tag string, data []byte) error {
	// Some stores accept a condition and ignore it. This comparison finds changes that
	// were made before the swap even in such a store.
	if _, now, err := b.Read(ctx, name); err != nil || now != tag {
		return errors.Join(err, changed(now != tag))
	}
	return b.putIf(ctx, name, tag, data)
}

func changed(yes bool) error {
	if yes {
		return ErrChanged
	}
	return nil
}

func (b *bucket) putIf(ctx context.Context, name, tag string, data []byte) error {
	var o minio.PutObjectOptions
	if tag == "" {
		o.SetMatchETagExcept("*")
	} else {
		o.SetMatchETag(tag)
	}
	_, err := b.client.PutObject(ctx, b.name, b.prefix+name, bytes.NewReader(data), int64(len(data)), o)
	if code := minio.ToErrorResponse(err).StatusCode; code == http.StatusPreconditionFailed || code == http.StatusConflict {
		return ErrChanged
	}
	return b.wrap("put", name, err)
}

// Conditions implements Place. It tests the condition that an object does not exist and
// the condition that an object has a tag.
func (b *bucket) Conditions(ctx context.Context) (bool, error) {
	name := "probe-" + rand.Text()
	if err := b.putIf(ctx, name, "", []byte("1")); err != nil {
		return false, err
	}
	defer b.Delete(context.WithoutCancel(ctx), name)
	absent := b.putIf(ctx, name, "", []byte("2"))
	other := b.putIf(ctx, name, "0123456789abcdef0123456789abcdef", []byte("3"))
	for _, err := range []error{absent, other} {
		if err != nil && !errors.Is(err, ErrChanged) {
			return false, err
		}
	}
	return absent != nil && other != nil, nil
}

// Delete implements Place.
func (b *bucket) Delete(ctx context.Context, name string) error {
	return b.wrap("delete", name, b.client.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{}))
}

// wrap adds the operation and the name of the object to an error.
func (b *bucket) wrap(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return fmt.Errorf("%s: %s %s: %w", b.text, doing, name, err)
}
