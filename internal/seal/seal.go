// Package seal encrypts secrets at rest. A [Key] seals and opens short texts
// with AES-256-GCM under a key derived from the region's master key; a sealed
// text is bound to the place it was sealed for, and opens nowhere else.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Key is the region's master key, ready for use. It is safe for concurrent use.
type Key struct {
	master []byte
	aead   cipher.AEAD
	random io.Reader
}

// masterSize is the length of a master key in bytes, for AES-256.
const masterSize = 32

// New returns a key for a master key of 32 bytes. Nonces come from random.
func New(master []byte, random io.Reader) (*Key, error) {
	if len(master) != masterSize {
		return nil, fmt.Errorf("a master key has %d bytes, not %d", masterSize, len(master))
	}
	k := &Key{master: slices.Clone(master), random: random}
	block, err := aes.NewCipher(k.Derive("sealing secrets at rest"))
	if err != nil {
		return nil, err
	}
	k.aead, err = cipher.NewGCM(block)
	return k, err
}

// Load reads the master key from a file of 64 hexadecimal digits. If the file
// does not exist and create is true, it generates one that only its owner can
// read.
func Load(file string, create bool, random io.Reader) (*Key, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) && create {
		return generate(file, random)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the master key: %w", err)
	}
	master, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(master) != masterSize {
		return nil, fmt.Errorf("the master key in %s is not %d hexadecimal digits", file, 2*masterSize)
	}
	return New(master, random)
}

func generate(file string, random io.Reader) (*Key, error) {
	master := make([]byte, masterSize)
	if _, err := io.ReadFull(random, master); err != nil {
		return nil, fmt.Errorf("choosing a master key: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of the master key: %w", err)
	}
	err := writeSynced(file, hex.EncodeToString(master)+"\n")
	if errors.Is(err, os.ErrExist) {
		return Load(file, false, random) // another process created one meanwhile
	}
	if err != nil {
		return nil, fmt.Errorf("writing the master key: %w", err)
	}
	return New(master, random)
}

// writeSynced writes a new file that is either complete or absent after a power
// failure, because everything sealed with a lost key is lost.
func writeSynced(file, text string) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // readable by its owner only
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link does not replace an existing file, as a rename would.
	if err := os.Link(f.Name(), file); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Derive returns a 32-byte key for another purpose.
func (k *Key) Derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, k.master, nil, "bastide: "+purpose, 32)
	if err != nil {
		panic(err) // only for lengths that are too large
	}
	return key
}

// Seal encrypts a text, for Open with the same place.
func (k *Key) Seal(text, place string) (string, error) {
	nonce := make([]byte, k.aead.NonceSize(), k.aead.NonceSize()+len(text)+k.aead.Overhead())
	if _, err := io.ReadFull(k.random, nonce); err != nil {
		return "", fmt.Errorf("choosing a nonce: %w", err)
	}
	return base64.StdEncoding.EncodeToString(k.aead.Seal(nonce, nonce, []byte(text), []byte(place))), nil
}

// ErrOther is the error for a text that was not sealed with this key for this
// place.
var ErrOther = errors.New("a sealed text does not open: it was sealed with another master key, or for another place")

// Open decrypts a sealed text. It returns [ErrOther] if the text was sealed
// with another key or for another place.
func (k *Key) Open(sealed, place string) (string, error) {
	box, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil || len(box) < k.aead.NonceSize() {
		return "", errors.New("not a sealed text")
	}
	text, err := k.aead.Open(nil, box[:k.aead.NonceSize()], box[k.aead.NonceSize():], []byte(place))
	if err != nil {
		return "", ErrOther
	}
	return string(text), nil
}
