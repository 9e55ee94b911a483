package iam

import (
	"context"
	"errors"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/resource"
)

func TestNewAccount(t *testing.T) {
	t.Parallel()
	r := setup(t)
	if err := r.account.AccountId.Form().Check(string(r.account.AccountId)); err != nil {
		t.Error(err)
	}
	if err := customerIDs.Check(r.account.CustomerId); err != nil {
		t.Error(err)
	}
	r.call("ReadAccounts", `{}`).is(
		"Accounts.0.AccountId", `"`+string(r.account.AccountId)+`"`,
		"Accounts.0.City", `"Saint-Cloud"`,
		"Accounts.0.AdditionalEmails", "", // not shown unless given
		"Accounts.0.OutscaleLoginAllowed", `true`,
		"Accounts.0.JobTitle", "", // not shown unless given
		"Accounts.0.PasswordHash", "",
		"Accounts.0.Policy", "",
		"Accounts.1", "")
	r.call("ReadApiAccessRules", `{"Filters": {"Descriptions": ["Allows all IPv4 domain"]}}`).is(
		"ApiAccessRules.0.IpRanges", `["0.0.0.0/0","::/0"]`, "ApiAccessRules.1", "")
	r.call("ReadAccessKeys", `{}`).is("AccessKeys", `[]`)

	given := r.newAccount(NewAccount{AccountId: "123456789012", CustomerId: "87654321", Email: "x@example.com", JobTitle: "Cook"})
	r.as(given, "").call("ReadAccounts", `{}`).is(
		"Accounts.0.AccountId", `"123456789012"`, "Accounts.0.CustomerId", `"87654321"`, "Accounts.0.JobTitle", `"Cook"`)
	r.as(given, "").at("1.1").call("ReadAccounts", `{}`).is(
		"Accounts.0.AccountId", `"123456789012"`, "Accounts.0.OutscaleLoginAllowed", "", "Accounts.0.AdditionalEmails", "")
}

func TestNewAccountRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		account NewAccount
		code    apierror.Code
	}{
		"no email":            {NewAccount{}, apierror.InvalidEmail},
		"no at sign":          {NewAccount{Email: "example.com"}, apierror.InvalidEmail},
		"no dot":              {NewAccount{Email: "a@example"}, apierror.InvalidEmail},
		"taken email":         {NewAccount{Email: "JEAN@example.com"}, apierror.EmailTaken},
		"short customer id":   {NewAccount{Email: "a@example.com", CustomerId: "1234567"}, apierror.InvalidValue},
		"the region's own id": {NewAccount{Email: "a@example.com", AccountId: "000000000000"}, apierror.AlreadyExists},
		"letters in the id":   {NewAccount{Email: "a@example.com", AccountId: "12345678901a"}, apierror.InvalidValue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := setup(t)
			before := r.journal.commits()
			err := r.DB.Update(t.Context(), r.caller, func(tx *resource.Tx) error { _, err := c.account.Create(tx); return err })
			if !c.code.Is(err) {
				t.Errorf("got %v, want code %s", err, c.code)
			}
			if r.journal.commits() != before {
				t.Error("something was written")
			}
		})
	}
	t.Run("taken id", func(t *testing.T) {
		t.Parallel()
		r := setup(t)
		again := NewAccount{Email: "a@example.com", AccountId: r.account.AccountId}
		err := r.DB.Update(t.Context(), r.caller, func(tx *resource.Tx) error { _, err := again.Create(tx); return err })
		if !apierror.AlreadyExists.Is(err) {
			t.Errorf("got %v, want code %s", err, apierror.AlreadyExists)
		}
	})
}

func TestUpdateAccount(t *testing.T) {
	t.Parallel()
	r := setup(t)
	all := `{"AdditionalEmails": ["a@example.com", "b@example.com"], "City": "1", "CompanyName": "2", "Country": "3",
		"Email": "Jean@Example.com", "FirstName": "4", "JobTitle": "5", "LastName": "6", "MobileNumber": "7", "PhoneNumber": "8",
		"StateProvince": "9", "VatNumber": "10", "ZipCode": "11"}`
	want := []string{
		"Account.AdditionalEmails", `["a@example.com","b@example.com"]`, "Account.City", `"1"`, "Account.CompanyName", `"2"`,
		"Account.Country", `"3"`, "Account.Email", `"Jean@Example.com"`, "Account.FirstName", `"4"`, "Account.JobTitle", `"5"`,
		"Account.LastName", `"6"`, "Account.MobileNumber", `"7"`, "Account.PhoneNumber", `"8"`, "Account.StateProvince", `"9"`,
		"Account.VatNumber", `"10"`, "Account.ZipCode", `"11"`,
	}
	r.call("UpdateAccount", all).is(want...)
	r.call("UpdateAccount", `{}`).is(want...)
	r.call("UpdateAccount", `{"AdditionalEmails": ["c@example.com"]}`).is("Account.AdditionalEmails", `["c@example.com"]`)
	r.call("UpdateAccount", `{"AdditionalEmails": [], "JobTitle": ""}`).is("Account.AdditionalEmails", "", "Account.JobTitle", "",
		"Account.City", `"1"`)
	r.call("ReadAccounts", `{}`).is("Accounts.0.AdditionalEmails", "", "Accounts.0.Email", `"Jean@Example.com"`)

	r.refused("UpdateAccount", `{"AdditionalEmails": ["a@example.com", "nobody"]}`, apierror.InvalidEmail, "AdditionalEmails.1", "nobody")
	r.refused("UpdateAccount", `{"AdditionalEmails": ["a@exa_mple.com"]}`, apierror.InvalidEmail)
	for _, several := range []string{
		"a@b.example, d@e.example", "a@b.example,d@e.example", "a@b.example;d@e.example", "a@b.example d@e.example", "a@b.example\\n d@e.example",
		"a@b@c.example", "A <a@b.example>", "a@b.example>",
	} {
		r.refused("UpdateAccount", `{"AdditionalEmails": ["c@example.com", "`+several+`"]}`, apierror.InvalidEmail, "AdditionalEmails.1",
			"name@example.com")
	}
	r.call("UpdateAccount", `{"AdditionalEmails": ["o'neil+é/1=x@example.com"]}`).is("Account.AdditionalEmails",
		`["o'neil+é/1=x@example.com"]`)
	r.refused("UpdateAccount", `{"Email": "a@example"}`, apierror.InvalidEmail, "Email")
	r.refused("UpdateAccount", `{"Email": ""}`, apierror.InvalidEmail, "Email")
	r.at("1.1").refused("UpdateAccount", `{"AdditionalEmails": []}`, apierror.UnknownParameter, "AdditionalEmails")
}

func TestEmailIsALogin(t *testing.T) {
	t.Parallel()
	r := setup(t)
	other := r.newAccount(NewAccount{Email: "other@example.com"})
	owner := func(login string) (account string) {
		r.view(func(tx *resource.Tx) { account, _ = LoginOwner(tx, login) })
		return account
	}

	r.refused("UpdateAccount", `{"Email": "OTHER@example.com", "City": "Lyon"}`, apierror.EmailTaken, "OTHER@example.com")
	r.call("ReadAccounts", `{}`).is("Accounts.0.Email", `"jean@example.com"`, "Accounts.0.City", `"Saint-Cloud"`)

	r.as(other, "").call("UpdateAccount", `{"Email": "new@example.com"}`)
	r.call("UpdateAccount", `{"Email": "OTHER@example.com"}`) // free again
	for login, want := range map[string]string{
		"other@EXAMPLE.com": string(r.account.AccountId), "new@example.com": string(other.AccountId),
		"jean@example.com": "", "nobody": "", "": "",
	} {
		if got := owner(login); got != want {
			t.Errorf("%q belongs to %q, want %q", login, got, want)
		}
	}
}

func TestCheckAuthentication(t *testing.T) {
	t.Parallel()
	r := setup(t)
	if got := r.call("CheckAuthentication", `{"Login": "jean@example.com", "Password": "right"}`).text; got != `{}` {
		t.Errorf("answered %s", got)
	}
	r.refused("CheckAuthentication", `{"Login": "jean@example.com", "Password": "wrong"}`, apierror.UnknownCredentials)
	r.refused("CheckAuthentication", `{"Login": "jean@example.com"}`, apierror.MissingParameter, "Password")
	r.refused("CheckAuthentication", `{"Password": "right"}`, apierror.MissingParameter, "Login")
	if len(r.checked) != 2 || r.checked[0] != "jean@example.com right" {
		t.Errorf("the gate was asked %q", r.checked)
	}
}

// An id is chosen in a transaction that runs again when the account it names
// is not in memory; the second run must choose the same.
func TestNewAccountWhenNothingIsInMemory(t *testing.T) {
	t.Parallel()
	r := setup(t)
	runs := 0
	err := r.DB.Update(context.Background(), resource.Caller{Account: "somewhere"}, func(tx *resource.Tx) error {
		if runs++; runs > 3 {
			return errors.New("it runs again and again")
		}
		_, err := NewAccount{Email: "lone@example.com"}.Create(tx)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
