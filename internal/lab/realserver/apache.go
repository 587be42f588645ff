package realserver

import (
	"os"
	"path/filepath"
)

// apacheModules is where Debian's packages put them.
const apacheModules = "/usr/lib/apache2/modules"

// apacheConf runs one child with threads, because mod_evasive counts in each child.
const apacheConf = `
ServerRoot {{.Dir}}
ServerName {{.Host}}
DefaultRuntimeDir {{.Dir}}
PidFile {{.Dir}}/apache.pid
Mutex file:{{.Dir}} default
Listen {{.Addr}}
LoadModule mpm_event_module MODULES/mod_mpm_event.so
LoadModule authz_core_module MODULES/mod_authz_core.so
LoadModule mime_module MODULES/mod_mime.so
LoadModule setenvif_module MODULES/mod_setenvif.so
TypesConfig /dev/null
AddType text/html .html
USER
StartServers 1
ServerLimit 1
ThreadsPerChild 32
MaxRequestWorkers 32
MinSpareThreads 1
MaxSpareThreads 32
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 60
ErrorLog {{.Dir}}/error.log
LogFormat "at=%{sec}t.%{usec_frac}t status=%>s after=%{Retry-After}o request=%r" hit
CustomLog {{.Log}} hit
DocumentRoot {{.Root}}
`

// apacheUser is needed by a server that root starts, and refused to any other.
func apacheUser() string {
	if os.Geteuid() == 0 {
		return "User www-data\nGroup www-data"
	}
	return ""
}

func apache(name, file, directives string) recipe {
	path := filepath.Join(apacheModules, file)
	conf := expand(apacheConf, "MODULES", apacheModules, "USER", apacheUser()) +
		expand(directives, "MODULE", "LoadModule "+name+" "+path)
	return recipe{
		needs:    []string{path},
		files:    map[string]string{"apache.conf": conf},
		commands: []command{{words: []string{"apache2", "-DFOREGROUND", "-d", "{{.Dir}}", "-f", "{{.Dir}}/apache.conf"}}},
	}
}

// modQoS limits requests per client with mod_qos, which may need a library loaded first. It
// refuses the 200th request of a window already.
func modQoS() recipe {
	return apache("qos_module", "mod_qos.so", `
`+loadFile("/usr/lib/*/libpcre.so.3")+`
MODULE
QS_ErrorResponseCode 503
SetEnvIf Request_URI . QS_Limit=1
QS_ClientEventLimitCount 200 10
`)
}

// modEvasive limits requests to the whole site, by seconds of the clock: the 21st in one blocks the client
// for ten seconds from its last request. The count per page, which cannot be turned off, is out of reach.
func modEvasive() recipe {
	return apache("evasive20_module", "mod_evasive20.so", `
MODULE
DOSHashTableSize 3097
DOSPageCount 1000000
DOSPageInterval 1
DOSSiteCount 20
DOSSiteInterval 1
DOSBlockingPeriod 10
DOSLogDir {{.Dir}}
`)
}

func loadFile(pattern string) string {
	if paths, err := filepath.Glob(pattern); err == nil && len(paths) > 0 {
		return "LoadFile " + paths[0]
	}
	return ""
}
