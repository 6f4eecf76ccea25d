package gss

import (
	"sync"

	"github.com/go-krb5/krb5/crypto"
	"github.com/go-krb5/krb5/crypto/common"
	"github.com/go-krb5/krb5/crypto/etype"
	"github.com/go-krb5/krb5/crypto/rfc3961"
	"github.com/go-krb5/krb5/crypto/rfc3962"
	"github.com/go-krb5/krb5/iana/etypeID"
)

// cipher returns the cipher of the key of a context.
func cipher(id int32) (etype.EType, error) {
	et, err := crypto.GetEtype(id)
	if id == etypeID.AES128_CTS_HMAC_SHA1_96 || id == etypeID.AES256_CTS_HMAC_SHA1_96 {
		et = &derived{EType: et}
	}
	return et, err
}

// A derived is a cipher of RFC 3962 for one key. It keeps the keys that it derives from this key, because deriving them
// takes most of the time of a short message.
type derived struct {
	etype.EType
	keys sync.Map // by usage
}

// DeriveKey implements etype.EType.
func (d *derived) DeriveKey(key, usage []byte) ([]byte, error) {
	if k, ok := d.keys.Load(string(usage)); ok {
		return k.([]byte), nil
	}
	k, err := d.EType.DeriveKey(key, usage)
	if err == nil {
		d.keys.Store(string(usage), k)
	}
	return k, err
}

// The methods of the library derive keys by its own cipher; these do it by this one.

func (d *derived) EncryptMessage(key, message []byte, usage uint32) (iv, box []byte, err error) {
	return rfc3962.EncryptMessage(key, message, usage, d)
}

func (d *derived) DecryptMessage(key, box []byte, usage uint32) ([]byte, error) {
	return rfc3962.DecryptMessage(key, box, usage, d)
}

func (d *derived) VerifyIntegrity(key, box, plain []byte, usage uint32) bool {
	return rfc3961.VerifyIntegrity(key, box, plain, usage, d)
}

func (d *derived) GetChecksumHash(key, data []byte, usage uint32) ([]byte, error) {
	return common.GetChecksumHash(data, key, usage, d)
}
