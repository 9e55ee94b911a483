package sim

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/bastide-cloud/bastide/internal/driver"
)

// guest is what runs in a machine.
type guest struct {
	wanted bool // the machine was last asked to be on
	on     bool
	offBy  driver.Cause
	deaf   bool // it does not shut down when it is asked to
	booted bool // at least once
	boots  int  // what the machine counted when it was last started

	console  []byte
	password []byte
}

// starts reports whether a machine is started once it is as it is asked to be.
// Without a guest there was none before.
func (g *guest) starts(m *driver.Machine) bool {
	return m.On && (g == nil || !g.wanted || m.Boots > g.boots)
}

// start boots the guest.
func (g *guest) start(m *driver.Machine, now time.Time) {
	g.say(now, "%s boots (%d): %d cores, %d GiB of memory, %s", m.ID, m.Boots, m.Cores, m.Memory, m.BootMode)
	for _, d := range m.Disks {
		g.say(now, "%s is %s", d.Device, d.Disk)
	}
	for _, n := range m.Nics {
		g.say(now, "eth%d has %v", n.Device, n.Private)
	}
	g.say(now, "found %d keys and %d bytes of user data", len(m.Keys), len(m.UserData))
	g.say(now, "%s login:", m.ID)
	g.password = nil
	if first := m.Boots <= 1 && !g.booted; first && m.Windows {
		g.password = sealedPassword(m)
	}
	g.on, g.offBy, g.booted, g.boots = true, "", true, m.Boots
}

// stop ends the guest. There is no cause if that was asked for.
func (g *guest) stop(by driver.Cause) { g.on, g.offBy, g.deaf = false, by, false }

// consoleSize is how much of a console is kept, in bytes: what AWS keeps.
const consoleSize = 64 << 10

// say writes a line to the console. What the machine was told in secret is not
// for it: who may read consoles may not read user data.
func (g *guest) say(now time.Time, format string, args ...any) {
	line := now.UTC().Format(time.RFC3339) + " " + fmt.Sprintf(format, args...) + "\r\n"
	g.console = append(g.console, line...)
	if extra := len(g.console) - consoleSize; extra > 0 {
		g.console = append([]byte(nil), g.console[extra:]...)
	}
}

// sealedPassword is the password of the administrator of a Windows, for whoever
// has the first RSA key; nil if nobody has. It follows from the name of the
// machine, since there is nothing that it opens.
func sealedPassword(m *driver.Machine) []byte {
	for _, line := range m.Keys {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			continue
		}
		public, ok := key.(ssh.CryptoPublicKey)
		if !ok {
			continue
		}
		if key, ok := public.CryptoPublicKey().(*rsa.PublicKey); ok {
			chosen := sha256.Sum256([]byte(m.Account + " " + m.ID))
			password := base32.StdEncoding.EncodeToString(chosen[:10])
			// The format is what clients of AWS and of OUTSCALE open. The
			// random source is the library's own whatever it is given.
			sealed, err := rsa.EncryptPKCS1v15(nil, key, []byte(password))
			if err != nil {
				return nil // the key is too short to seal with
			}
			return sealed
		}
	}
	return nil
}
