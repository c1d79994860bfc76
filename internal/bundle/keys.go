package bundle

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
)

// minRSABits is how many bits an RSA key has at least.
const minRSABits = 2048

// PublicKey verifies signatures.
type PublicKey struct {
	key       crypto.PublicKey
	algorithm string // of its signatures, as JWS calls it
	id        string
}

// ID returns the key's id, which depends on the key alone. It is the kid of signatures.
func (k PublicKey) ID() string { return k.id }

// SigningKey makes signatures.
type SigningKey struct {
	signer crypto.Signer
	public PublicKey
}

// Public returns the key that verifies the signatures.
func (k SigningKey) Public() PublicKey { return k.public }

// ParsePublicKey reads a public key in PEM (PKIX): Ed25519, ECDSA over P-256, or RSA.
func ParsePublicKey(text []byte) (PublicKey, error) {
	key, err := parse(text, "PUBLIC KEY", x509.ParsePKIXPublicKey)
	if err != nil {
		return PublicKey{}, err
	}
	return publicKey(key)
}

// ParseSigningKey reads a private key in PEM (PKCS #8): Ed25519, ECDSA over P-256, or RSA.
func ParseSigningKey(text []byte) (SigningKey, error) {
	key, err := parse(text, "PRIVATE KEY", x509.ParsePKCS8PrivateKey)
	if err != nil {
		return SigningKey{}, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return SigningKey{}, fmt.Errorf("the key is of the kind %T: take Ed25519, RSA or P-256", key)
	}
	public, err := publicKey(signer.Public())
	return SigningKey{signer, public}, err
}

// parse returns what the one PEM block of a text has, which is of a type.
func parse(text []byte, want string, der func([]byte) (any, error)) (any, error) {
	block, rest := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("there is no PEM block %q: caddy cadenza bundle keys makes a pair of keys", want)
	}
	if second, _ := pem.Decode(rest); second != nil {
		return nil, errors.New("there is more than one PEM block: each key has a file of its own, in PKCS #8 or PKIX as openssl pkey writes it")
	}
	if block.Type != want {
		return nil, fmt.Errorf("the key is a PEM block %.100q, and not %q: give the other key of the pair, or write it so, without a passphrase (openssl pkey -in OLD -out NEW, and -pubout for a public key)", block.Type, want)
	}
	key, err := der(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the key can't be read: %w", err)
	}
	return key, nil
}

// publicKey returns a key with the one algorithm that its kind has.
func publicKey(key any) (PublicKey, error) {
	k := PublicKey{key: key}
	switch key := key.(type) {
	case ed25519.PublicKey:
		k.algorithm = "EdDSA"
	case *rsa.PublicKey:
		k.algorithm = "RS256"
		if bits := key.N.BitLen(); bits < minRSABits {
			return PublicKey{}, fmt.Errorf("the RSA key has %d bits: take one of at least %d, or Ed25519", bits, minRSABits)
		}
	case *ecdsa.PublicKey:
		k.algorithm = "ES256"
		if key.Curve != elliptic.P256() {
			return PublicKey{}, fmt.Errorf("the key is of the curve %s: take P-256 or Ed25519", key.Params().Name)
		}
	default:
		return PublicKey{}, fmt.Errorf("the key is of the kind %T: take Ed25519, RSA or P-256", key)
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return PublicKey{}, err
	}
	sum := sha256.Sum256(der)
	k.id = hex.EncodeToString(sum[:8])
	return k, nil
}

// verifies reports whether a signature is this key's over a text. Nothing that comes
// with the signature has a say in how.
func (k PublicKey) verifies(text string, signature []byte) bool {
	sum := sha256.Sum256([]byte(text))
	switch key := k.key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, []byte(text), signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	case *ecdsa.PublicKey:
		if len(signature) != 64 {
			return false
		}
		return ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	}
	return false
}

// sign returns the signature over a text. It is the same each time: RSA and Ed25519
// know no other, and ECDSA takes its random number from key and text (RFC 6979).
func (k SigningKey) sign(text string) ([]byte, error) {
	if _, ok := k.public.key.(ed25519.PublicKey); ok {
		return k.signer.Sign(nil, []byte(text), crypto.Hash(0))
	}
	sum := sha256.Sum256([]byte(text))
	signature, err := k.signer.Sign(nil, sum[:], crypto.SHA256)
	if _, ok := k.public.key.(*ecdsa.PublicKey); !ok || err != nil {
		return signature, err
	}
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &pair); err != nil {
		return nil, err
	}
	fixed := make([]byte, 64)
	pair.R.FillBytes(fixed[:32])
	pair.S.FillBytes(fixed[32:])
	return fixed, nil
}

// MakeKeys makes a pair of Ed25519 keys in PEM.
func MakeKeys() (private, public []byte, err error) {
	publicKey, privateKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(privateKey)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}
