package iam

import (
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/lifecycle"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// AccessKey signs calls for the root account or for an EIM user.
type AccessKey struct {
	AccessKeyId  id.AccessKey       // The ID of the access key.
	CreationDate api.OffsetDateTime // When the access key was created (UTC).
	// When the access key ceases to sign calls (UTC); never if absent.
	ExpirationDate       api.OffsetDateTime
	LastModificationDate api.OffsetDateTime // When the access key last changed (UTC).
	// Whether the access key signs calls (`ACTIVE`) or not (`INACTIVE`).
	State AccessKeyState
	Tag   *AccessKeyTag // The tag of the access key, if it has one.

	Secret resource.Secret `wire:"-"` // See [AccessKeySecretKey].
	UserId id.User         `wire:"-"` // The user it belongs to; empty: the root account.
}

// AccessKeySecretKey is an access key and its secret.
type AccessKeySecretKey struct {
	AccessKeyId  id.AccessKey       // The ID of the access key.
	CreationDate api.OffsetDateTime // When the access key was created (UTC).
	// When the access key ceases to sign calls (UTC); never if absent.
	ExpirationDate       api.OffsetDateTime
	LastModificationDate api.OffsetDateTime // When the access key last changed (UTC).
	SecretKey            string             // The secret that signs calls. It is not shown again.
	// Whether the access key signs calls (`ACTIVE`) or not (`INACTIVE`).
	State AccessKeyState
	Tag   *AccessKeyTag // The tag of the access key, if it has one.
}

// AccessKeys are the access keys of an account and of its users.
var AccessKeys = &resource.Kind[AccessKey, id.AccessKey]{
	Name:     "AccessKey",
	NotFound: apierror.AccessKeyNotFound,
	Life:     accessKeyLife,
}

// maxAccessKeys bounds the access keys of the root account and those of each user.
const maxAccessKeys = 10

// secretSize is the number of symbols in a secret: some 200 bits.
const secretSize = 40

func accessKeyActions() []api.Action {
	return []api.Action{
		api.Create(api.NewResource(AccessKeys, withSecret), createAccessKey),
		api.Do("AccessKey", readAccessKeys),
		api.Do("AccessKey", readSecretAccessKey),
		api.Do("AccessKey", updateAccessKey),
		api.Command("AccessKey", deleteAccessKey),
	}
}

// AccessKeyState says whether an access key signs calls.
type AccessKeyState string

// The states of an access key.
const (
	AccessKeyActive   AccessKeyState = "ACTIVE"
	AccessKeyInactive AccessKeyState = "INACTIVE"
)

// The events of an access key.
const (
	accessKeyCreated     lifecycle.Event[AccessKeyState] = "created"
	AccessKeyActivated   lifecycle.Event[AccessKeyState] = "activated"
	accessKeyDeactivated lifecycle.Event[AccessKeyState] = "deactivated"
	accessKeyDeleted     lifecycle.Event[AccessKeyState] = "deleted"
)

// accessKeyLife is the life of an access key. That of a user must be inactive to be
// deleted, which is the rule's to say.
var accessKeyLife = lifecycle.Table[AccessKeyState]{
	"":                {accessKeyCreated: AccessKeyActive},
	AccessKeyActive:   {accessKeyDeactivated: AccessKeyInactive, accessKeyDeleted: ""},
	AccessKeyInactive: {AccessKeyActivated: AccessKeyActive, accessKeyDeleted: ""},
}

// accessKeyEvents are what leads to the states that a caller can ask for.
var accessKeyEvents = map[AccessKeyState]lifecycle.Event[AccessKeyState]{
	AccessKeyActive: AccessKeyActivated, AccessKeyInactive: accessKeyDeactivated,
}

// upperStates is the first version that writes states in upper case.
var upperStates = api.Version{Major: 1, Minor: 28, Patch: 5}

// Literals are the states.
func (AccessKeyState) Literals() []string {
	return []string{string(AccessKeyActive), string(AccessKeyInactive)}
}

// ParseWire reads a state in either case, and leaves what is none as it is.
func (s *AccessKeyState) ParseWire(text string) error {
	*s = AccessKeyState(text)
	if upper := strings.ToUpper(text); slices.Contains(s.Literals(), upper) {
		*s = AccessKeyState(upper)
	}
	return nil
}

// At is the state as the version writes it.
func (s AccessKeyState) At(v api.Version) string {
	if v.Before(upperStates) {
		return strings.ToLower(string(s))
	}
	return string(s)
}

// AccessKeyTag is a word that finds access keys again.
type AccessKeyTag string

// maxAccessKeyTag is what other tags may have, in characters.
const maxAccessKeyTag = 255

// Check reports a tag that is too long.
func (t AccessKeyTag) Check() error {
	if utf8.RuneCountInString(string(t)) > maxAccessKeyTag {
		return apierror.InvalidLength.Errorf("The tag of an access key has at most %d characters.", maxAccessKeyTag)
	}
	return nil
}

func withSecret(_ *resource.Tx, k *AccessKey) *AccessKeySecretKey {
	return &AccessKeySecretKey{
		AccessKeyId: k.AccessKeyId, CreationDate: k.CreationDate, ExpirationDate: k.ExpirationDate,
		LastModificationDate: k.LastModificationDate, SecretKey: string(k.Secret), State: k.State, Tag: k.Tag,
	}
}

// namedOrCaller is the user a call is about: the one it names or the one it
// comes from. The root account is the empty one.
func namedOrCaller(tx *resource.Tx, userName string) (id.User, error) {
	if userName == "" {
		return id.User(tx.Caller.User), nil
	}
	u, err := userNamed(tx, userName)
	if err != nil {
		return "", err
	}
	return u.UserId, nil
}

// keysOf yields the access keys of a user, or of the root account.
func keysOf(tx *resource.Tx, user id.User) iter.Seq[*AccessKey] {
	if user != "" {
		return AccessKeys.Of(tx, user)
	}
	return func(yield func(*AccessKey) bool) {
		for key := range AccessKeys.All(tx) {
			if key.UserId == "" && !yield(key) {
				return
			}
		}
	}
}

// keyOf finds an access key of a user, or of the root account. Anybody else's
// is as good as none.
func keyOf(tx *resource.Tx, user id.User, keyID id.AccessKey) (*AccessKey, error) {
	key, err := AccessKeys.Get(tx, keyID)
	if err != nil {
		return nil, err
	}
	if key.UserId != user {
		return nil, apierror.AccessKeyNotFound.NotFound("AccessKeyId", string(keyID))
	}
	return key, nil
}

// CreateAccessKeyRequest asks for an access key.
type CreateAccessKeyRequest struct {
	// When the access key ceases to sign calls, a date or a date and time to come; never by
	// default.
	ExpirationDate *api.OffsetDateTime
	Tag            *AccessKeyTag // A tag of at most 255 characters.
	// The EIM user it is for; by default whoever sends the call, which may be the root account.
	UserName string
}

func createAccessKey(tx *resource.Tx, req *CreateAccessKeyRequest) (*AccessKey, error) {
	user, err := namedOrCaller(tx, req.UserName)
	if err != nil {
		return nil, err
	}
	key := &AccessKey{UserId: user, Tag: req.Tag}
	if err := key.expireAt(tx, req.ExpirationDate); err != nil {
		return nil, err
	}
	return key, key.prepare(tx)
}

// NewAccessKey makes an access key for the root account of an account. An
// empty ID or secret is chosen.
func NewAccessKey(tx *resource.Tx, account id.Account, keyID, secret string) (*AccessKey, error) {
	tx = tx.In(string(account))
	key := &AccessKey{AccessKeyId: id.AccessKey(keyID), Secret: resource.Secret(secret)}
	if keyID != "" {
		if err := key.AccessKeyId.Form().Check(keyID); err != nil {
			return nil, err
		}
	}
	if err := key.prepare(tx); err != nil {
		return nil, err
	}
	return key, AccessKeys.Insert(tx, key)
}

// prepare completes a new key and enters it in the directory.
func (k *AccessKey) prepare(tx *resource.Tx) error {
	have := 0
	for range keysOf(tx, k.UserId) {
		have++
	}
	if have >= maxAccessKeys {
		return apierror.TooManyAccessKeys.Errorf("The root account and each user have at most %d access keys.", maxAccessKeys)
	}
	account, err := accountOf(tx)
	if err != nil {
		return err
	}
	if err := account.Policy.admits(k, tx.Now()); err != nil {
		return err
	}
	if k.AccessKeyId == "" {
		k.AccessKeyId = unusedKeyID(tx)
	}
	if k.Secret == "" {
		k.Secret = resource.Secret(resource.Random(tx.Rand(), secretSize, resource.Alphanumeric))
	}
	k.CreationDate = api.OffsetAt(tx.Now())
	k.LastModificationDate = k.CreationDate
	return keyName(string(k.AccessKeyId)).enter(tx, account.AccountId)
}

// unusedKeyID chooses an ID that no access key of the region has.
func unusedKeyID(tx *resource.Tx) id.AccessKey {
	var form id.AccessKey
	for {
		chosen := form.Form().Random(tx.Rand())
		if _, used := KeyOwner(tx, chosen); !used {
			return id.AccessKey(chosen)
		}
	}
}

// expireAt sets the date, if there is one, at which the key expires.
func (k *AccessKey) expireAt(tx *resource.Tx, date *api.OffsetDateTime) error {
	if date == nil {
		return nil
	}
	if !date.Time().After(tx.Now()) {
		return apierror.InvalidValue.Errorf("ExpirationDate must be in the future, and %s is not.", date.AppendWire(nil))
	}
	k.ExpirationDate = *date
	return nil
}

// ReadAccessKeysRequest asks for the access keys of the root account or of an
// EIM user.
type ReadAccessKeysRequest struct {
	Filters *FiltersAccessKeys // What to select by; all access keys by default.
	Tag     string             // The tag that the access keys have; any by default.
	// The EIM user they belong to; by default whoever sends the call, which may be the root
	// account.
	UserName string
}

// FiltersAccessKeys selects access keys.
type FiltersAccessKeys struct {
	AccessKeyIds []id.AccessKey   // The IDs of the access keys.
	States       []AccessKeyState // The states of the access keys, `ACTIVE` or `INACTIVE`.
}

// ReadAccessKeysResponse shows the access keys.
type ReadAccessKeysResponse struct{ AccessKeys []*AccessKey }

// Whose keys are listed depends on the caller, which a filter cannot say:
// hence no api.Read.
func readAccessKeys(tx *resource.Tx, req *ReadAccessKeysRequest) (*ReadAccessKeysResponse, error) {
	user, err := namedOrCaller(tx, req.UserName)
	if err != nil {
		return nil, err
	}
	var resp ReadAccessKeysResponse
	for key := range keysOf(tx, user) {
		if req.selects(key) {
			resp.AccessKeys = append(resp.AccessKeys, key)
		}
	}
	return &resp, nil
}

func (r *ReadAccessKeysRequest) selects(key *AccessKey) bool {
	if r.Tag != "" && (key.Tag == nil || string(*key.Tag) != r.Tag) {
		return false
	}
	f := r.Filters
	return f == nil ||
		(len(f.AccessKeyIds) == 0 || slices.Contains(f.AccessKeyIds, key.AccessKeyId)) &&
			(len(f.States) == 0 || slices.Contains(f.States, key.State))
}

// ReadSecretAccessKeyRequest asks for the secret of an access key of the root
// account.
type ReadSecretAccessKeyRequest struct {
	AccessKeyId id.AccessKey `api:"required"` // The ID of the access key.
}

// ReadSecretAccessKeyResponse shows the access key and its secret.
type ReadSecretAccessKeyResponse struct{ AccessKey *AccessKeySecretKey }

func readSecretAccessKey(tx *resource.Tx, req *ReadSecretAccessKeyRequest) (*ReadSecretAccessKeyResponse, error) {
	key, err := keyOf(tx, "", req.AccessKeyId)
	if err != nil {
		return nil, err
	}
	return &ReadSecretAccessKeyResponse{withSecret(tx, key)}, nil
}

// UpdateAccessKeyRequest asks to change an access key. What is not given
// stays; at least one change must be.
type UpdateAccessKeyRequest struct {
	AccessKeyId id.AccessKey `api:"required"` // The ID of the access key.
	// Whether the access key never expires from now on. It does not go with ExpirationDate.
	ClearExpirationDate bool
	// Whether the access key loses its tag. It does not go with Tag.
	ClearTag bool
	// When the access key ceases to sign calls, a date or a date and time to come.
	ExpirationDate *api.OffsetDateTime
	// Whether the access key signs calls (`ACTIVE`) or not (`INACTIVE`).
	State AccessKeyState
	Tag   *AccessKeyTag // A tag of at most 255 characters.
	// The EIM user it belongs to; by default whoever sends the call, which may be the root
	// account.
	UserName string
}

// UpdateAccessKeyResponse shows the access key as it has become.
type UpdateAccessKeyResponse struct{ AccessKey *AccessKey }

func (r *UpdateAccessKeyRequest) check() error {
	switch {
	case r.ExpirationDate != nil && r.ClearExpirationDate:
		return apierror.InvalidParameter.Errorf("ExpirationDate and ClearExpirationDate do not go together.")
	case r.Tag != nil && r.ClearTag:
		return apierror.InvalidParameter.Errorf("Tag and ClearTag do not go together.")
	case r.State == "" && r.ExpirationDate == nil && !r.ClearExpirationDate && r.Tag == nil && !r.ClearTag:
		return apierror.MissingParameter.Errorf("State is required, as nothing else is to change.")
	}
	return nil
}

// updateAccessKey leaves an expiration date that is not mentioned as it is.
// The real service is documented to clear it, but since it has
// ClearExpirationDate its own clients change only the state and then expect
// the date they set before.
func updateAccessKey(tx *resource.Tx, req *UpdateAccessKeyRequest) (*UpdateAccessKeyResponse, error) {
	if err := req.check(); err != nil {
		return nil, err
	}
	user, err := namedOrCaller(tx, req.UserName)
	if err != nil {
		return nil, err
	}
	key, err := keyOf(tx, user, req.AccessKeyId)
	if err != nil {
		return nil, err
	}
	if req.Tag != nil || req.ClearTag {
		key.Tag = req.Tag
	}
	if req.ClearExpirationDate {
		key.ExpirationDate = 0
	}
	if err := key.expireAt(tx, req.ExpirationDate); err != nil {
		return nil, err
	}
	account, err := accountOf(tx)
	if err != nil {
		return nil, err
	}
	if err := account.Policy.admits(key, tx.Now()); err != nil {
		return nil, err
	}
	key.LastModificationDate = api.OffsetAt(tx.Now())
	if req.State == "" || req.State == key.State {
		return &UpdateAccessKeyResponse{key}, AccessKeys.Put(tx, key)
	}
	return &UpdateAccessKeyResponse{key}, resource.Transition(tx, AccessKeys, key, accessKeyEvents[req.State])
}

// DeleteAccessKeyRequest asks to delete an access key. One of an EIM user must
// be inactive. It may be the key that signs this call.
type DeleteAccessKeyRequest struct {
	AccessKeyId id.AccessKey `api:"required"` // The ID of the access key.
	// The EIM user it belongs to; by default whoever sends the call, which may be the root
	// account.
	UserName string
}

func deleteAccessKey(tx *resource.Tx, req *DeleteAccessKeyRequest) error {
	user, err := namedOrCaller(tx, req.UserName)
	if err != nil {
		return err
	}
	key, err := keyOf(tx, user, req.AccessKeyId)
	if err != nil {
		return err
	}
	if user != "" && key.State != AccessKeyInactive {
		return apierror.InvalidState.Errorf("The access key %s of a user is %s. It must be %s to be deleted.", key.AccessKeyId, key.State, AccessKeyInactive)
	}
	if err := keyName(string(key.AccessKeyId)).leave(tx); err != nil {
		return err
	}
	return AccessKeys.Delete(tx, key)
}
