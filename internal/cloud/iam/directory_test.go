package iam

import (
	"fmt"
	"testing"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestDirectory(t *testing.T) {
	t.Parallel()
	r := setup(t)
	other := r.newAccount(NewAccount{Email: "other@example.com"})
	mine := r.call("CreateAccessKey", `{}`).get("AccessKey.AccessKeyId")
	theirs := r.as(other, "").call("CreateAccessKey", `{}`).get("AccessKey.AccessKeyId")
	gone := r.call("CreateAccessKey", `{}`).get("AccessKey.AccessKeyId")
	r.call("DeleteAccessKey", `{"AccessKeyId": "`+gone+`"}`)

	r.view(func(tx *resource.Tx) {
		for key, want := range map[string]id.Account{
			mine: r.account.AccountId, theirs: other.AccountId, gone: "", "jean@example.com": "", "": "",
		} {
			if got, ok := KeyOwner(tx, key); id.Account(got) != want || ok != (want != "") {
				t.Errorf("the key %q belongs to %q (%v), want %q", key, got, ok, want)
			}
		}
		// A key is no login.
		if got, ok := LoginOwner(tx, mine); ok {
			t.Errorf("a login %s belongs to %s", mine, got)
		}
	})
}

func TestDirectoryIsSpread(t *testing.T) {
	t.Parallel()
	const names = 256 * 100
	shards := map[string]int{}
	for i := range names {
		shards[keyName(fmt.Sprintf("KEY%017d", i)).shard()]++
	}
	for shard, n := range shards {
		if n > 200 {
			t.Errorf("%s has %d of %d names", shard, n, names)
		}
	}
}

func BenchmarkKeyOwner(b *testing.B) {
	r := found(b)
	defer r.DB.Close()
	key := r.call("CreateAccessKey", `{}`).get("AccessKey.AccessKeyId")
	r.view(func(tx *resource.Tx) {
		for b.Loop() {
			if _, ok := KeyOwner(tx, key); !ok {
				b.Fatal("not found")
			}
		}
	})
}
