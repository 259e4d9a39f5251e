package fakeredis

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// newSettings returns what CONFIG GET knows at the start.
func newSettings(cfg Config, port string) map[string]string {
	return map[string]string{
		"appendonly":       "no",
		"databases":        strconv.Itoa(databases),
		"maxclients":       "10000",
		"maxmemory":        "0",
		"maxmemory-policy": "noeviction",
		"port":             port,
		"requirepass":      cfg.Password,
		"save":             "",
		"timeout":          "0",
	}
}

// SetConfig changes what CONFIG GET answers for name, and INFO for maxmemory and maxmemory-policy. Nothing else
// follows from it: SetOOM is what fills the memory.
func (s *Server) SetConfig(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings[strings.ToLower(name)] = value
}

func configGet(x *call) reply {
	if len(x.args) > 3 && !since6.has(x.srv.cfg.Flavor) {
		return x.srv.cfg.Flavor.unknownSubcommand("config", x.args[1])
	}
	var names []string
	for name := range x.srv.settings {
		for _, p := range x.args[2:] {
			if glob(strings.ToLower(string(p)), name) {
				names = append(names, name)
				break
			}
		}
	}
	slices.Sort(names)
	var pairs []reply
	for _, name := range names {
		pairs = append(pairs, bulkReply(name), bulkReply(x.srv.settings[name]))
	}
	return mapReply(pairs...)
}

func timeNow(x *call) reply {
	t := x.srv.cfg.Now()
	return arrayReply(bulkList(strconv.FormatInt(t.Unix(), 10), strconv.Itoa(t.Nanosecond()/1000))...)
}

func role(*call) reply { return arrayReply(bulkReply("master"), intReply(0), arrayReply()) }

// info is INFO [section …]: server, memory and replication.
func info(x *call) reply {
	want := func(section string) bool { return true }
	if len(x.args) > 1 {
		asked := make(map[string]bool)
		for i := range x.args[1:] {
			asked[x.word(i+1)] = true
		}
		if !asked["all"] && !asked["default"] && !asked["everything"] {
			want = func(section string) bool { return asked[section] }
		}
	}
	var sections []string
	if want("server") {
		sections = append(sections, x.infoServer())
	}
	if want("memory") {
		sections = append(sections, x.infoMemory())
	}
	if want("replication") {
		sections = append(sections, infoText("Replication",
			"role", "master", "connected_slaves", "0", "master_failover_state", "no-failover",
			"master_replid", x.srv.runID, "master_replid2", strings.Repeat("0", 40),
			"master_repl_offset", "0", "second_repl_offset", "-1", "repl_backlog_active", "0"))
	}
	return verbatimReply(strings.Join(sections, "\r\n"))
}

func (x *call) infoServer() string {
	flavor := x.srv.cfg.Flavor
	fields := []string{"redis_version", flavor.version()}
	if flavor == Valkey9 {
		fields = []string{"redis_version", "7.2.4", "server_name", "valkey", "valkey_version", flavor.version()}
	}
	up := int64(x.srv.cfg.Now().Sub(x.srv.started).Seconds())
	fields = append(fields,
		"redis_mode", "standalone",
		"os", runtime.GOOS+" "+runtime.GOARCH,
		"arch_bits", strconv.Itoa(strconv.IntSize),
		"run_id", x.srv.runID,
		"tcp_port", x.srv.ln.port(),
		"server_time_usec", strconv.FormatInt(x.srv.cfg.Now().UnixMicro(), 10),
		"uptime_in_seconds", strconv.FormatInt(up, 10),
		"uptime_in_days", strconv.FormatInt(up/86400, 10))
	return infoText("Server", fields...)
}

func (x *call) infoMemory() string {
	used := 0
	for _, db := range x.srv.dbs {
		for k, e := range db {
			used += len(k) + len(e.str)
		}
	}
	return infoText("Memory",
		"used_memory", strconv.Itoa(1<<20+used), // about what an empty Redis needs
		"maxmemory", x.srv.settings["maxmemory"],
		"maxmemory_policy", x.srv.settings["maxmemory-policy"])
}

// infoText writes one section of INFO from names and values.
func infoText(title string, fields ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\r\n", title)
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&b, "%s:%s\r\n", fields[i], fields[i+1])
	}
	return b.String()
}

// flagNames is what COMMAND calls the flags, in Redis' order.
var flagNames = []struct {
	flag flag
	name string
}{{write, "write"}, {readonly, "readonly"}, {denyoom, "denyoom"}, {noscript, "noscript"}, {fast, "fast"}, {noauth, "no_auth"}}

// describe is what COMMAND tells about a command, as far as the table knows it.
func (c *command) describe() reply {
	var flags []string
	for _, f := range flagNames {
		if c.flags&f.flag != 0 {
			flags = append(flags, f.name)
		}
	}
	return arrayReply(bulkReply(c.name), intReply(int64(c.arity)), setReply(statusList(flags...)...),
		intReply(int64(c.keys[0])), intReply(int64(c.keys[1])), intReply(int64(c.keys[2])),
		setReply(), setReply(), setReply(), setReply())
}

// commandAll is COMMAND, which lists the commands that this server has.
func commandAll(x *call) reply {
	var names []string
	for name, c := range byName {
		if !strings.Contains(name, "|") && c.in.has(x.srv.cfg.Flavor) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(x.args) > 1 {
		switch x.word(1) {
		case "count":
			return intReply(int64(len(names)))
		case "info":
			names = names[:0]
			for _, a := range x.args[2:] {
				names = append(names, strings.ToLower(string(a)))
			}
		default:
			return x.srv.cfg.Flavor.unknownSubcommand("command", x.args[1])
		}
	}
	list := make([]reply, len(names))
	for i, name := range names {
		list[i] = replyNull
		if c := x.srv.named([]byte(name)); c != nil {
			list[i] = c.describe()
		}
	}
	return arrayReply(list...)
}
