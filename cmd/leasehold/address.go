package main

import (
	"net/url"
	"slices"
	"strings"
)

// address is the URL of a server. It is never shown: it may hold a password.
type address struct {
	url   *url.URL // without the login and the parameters
	login *url.Userinfo
	query url.Values // keys in lower case, as the driver takes them
}

// changePassword would have the driver change it at every login.
const changePassword = "change password"

// secretParameter says that the driver or its azuread takes a secret from a parameter, or might be thought to.
func secretParameter(key string) bool {
	return slices.Contains([]string{"password", "pwd", changePassword, "systemtoken", "clientassertion", "userassertion"}, key)
}

// parseAddress takes a URL apart. It is stricter than the driver: a password whose special characters are not encoded may
// end up in the name of the host, of the instance or of a parameter, and the driver shows those.
func parseAddress(target string) (address, bool) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "sqlserver" || u.Hostname() == "" || u.Fragment != "" || strings.Contains(u.Path, "@") {
		return address{}, false
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return address{}, false
	}
	a := address{url: u, login: u.User, query: url.Values{}}
	for key, values := range query {
		key = strings.ToLower(key)
		if strings.Contains(key, "@") || len(values) != 1 || a.query.Has(key) || key == changePassword {
			return address{}, false
		}
		a.query[key] = values
	}
	u.User, u.RawQuery = nil, ""
	return a, a.takeLogin()
}

// takeLogin takes the login from the parameters, where the driver accepts it too. It must not be in both places.
func (a *address) takeLogin() bool {
	user, password := a.query.Get("user id"), a.query.Get("password")
	named, secret := a.query.Has("user id"), a.query.Has("password")
	if !named && !secret {
		return true
	}
	if _, has := a.password(); named && a.login != nil || secret && has {
		return false
	}
	if !named {
		user = a.login.Username()
	}
	a.login = url.User(user)
	if secret {
		a.login = url.UserPassword(user, password)
	}
	a.query.Del("user id")
	a.query.Del("password")
	return true
}

func (a address) password() (string, bool) { return a.login.Password() }

func (a address) withPassword(password string) address {
	a.login = url.UserPassword(a.login.Username(), password)
	return a
}

// azure says that the login is one of Azure AD.
func (a address) azure() bool { return a.query.Has("fedauth") }

func (a address) String() string {
	u := *a.url
	u.User, u.RawQuery = a.login, a.query.Encode()
	return u.String()
}

// withoutSecrets is what others may know of it. It reports whether there was a secret.
func (a address) withoutSecrets() (address, bool) {
	safe := a
	_, found := a.password()
	if found {
		safe.login = url.User(a.login.Username())
	}
	safe.query = url.Values{}
	for key, values := range a.query {
		if secretParameter(key) {
			found = true
			continue
		}
		safe.query[key] = values
	}
	return safe, found
}

// withoutPassword is the name of a store as the command may know it. It is false if that cannot be told: what is not
// understood may have its password anywhere.
func withoutPassword(target string) (string, bool) {
	if isSQLite(target) || target == "" {
		return target, true
	}
	a, ok := parseAddress(target)
	if !ok {
		return "", false
	}
	if safe, found := a.withoutSecrets(); found {
		return safe.String(), true
	}
	return target, true
}

// hasPassword says that there is a password in the name of a store. If it cannot be told, better once too often.
func hasPassword(target string) bool {
	if safe, ok := withoutPassword(target); ok {
		return safe != target
	}
	return strings.ContainsAny(target, "@=")
}
