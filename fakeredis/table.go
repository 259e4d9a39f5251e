package fakeredis

// table is every command that the server knows. A new command is one line here and one function that returns a
// reply. A line without a function is a container: its subcommands follow as "name|subcommand".
func table() []command {
	one, all := keys{1, 1, 1}, keys{1, -1, 1}
	return []command{
		// Connection.
		{"auth", -2, noscript | fast | noauth, keys{}, inAll, auth},
		{"client", -2, 0, keys{}, inAll, nil},
		{"client|getname", 2, noscript, keys{}, inAll, clientGetName},
		{"client|id", 2, noscript, keys{}, inAll, clientID},
		{"client|kill", -3, noscript, keys{}, inAll, clientKill},
		{"client|setinfo", 4, noscript, keys{}, since72, clientSetInfo},
		{"client|setname", 3, noscript, keys{}, inAll, clientSetName},
		{"echo", 2, fast, keys{}, inAll, echo},
		{"hello", -1, noscript | fast | noauth, keys{}, since6, hello},
		{"ping", -1, fast, keys{}, inAll, ping},
		{"quit", -1, noscript | fast | noauth, keys{}, inAll, quit},
		{"select", 2, fast, keys{}, inAll, selectDB},

		// Server.
		{"command", -1, 0, keys{}, inAll, commandAll},
		{"config", -2, 0, keys{}, inAll, nil},
		{"config|get", -3, noscript, keys{}, inAll, configGet},
		{"dbsize", 1, readonly | fast, keys{}, inAll, dbSize},
		{"flushall", -1, write, keys{}, inAll, flushAll},
		{"flushdb", -1, write, keys{}, inAll, flushDB},
		{"info", -1, 0, keys{}, inAll, info},
		{"role", 1, noscript | fast, keys{}, inAll, role},
		{"time", 1, fast, keys{}, inAll, timeNow},

		// Scripts.
		{"eval", -3, noscript, keys{}, inAll, eval},
		{"evalsha", -3, noscript, keys{}, inAll, evalSHA},
		{"script", -2, 0, keys{}, inAll, nil},
		{"script|exists", -3, noscript, keys{}, inAll, scriptExists},
		{"script|flush", -2, noscript, keys{}, inAll, scriptFlush},
		{"script|load", 3, noscript, keys{}, inAll, scriptLoad},

		// Keys.
		{"del", -2, write, all, inAll, del},
		{"exists", -2, readonly | fast, all, inAll, exists},
		{"expire", -3, write | fast, one, inAll, expire},
		{"keys", 2, readonly, keys{}, inAll, keysMatching},
		{"persist", 2, write | fast, one, inAll, persist},
		{"pexpire", -3, write | fast, one, inAll, pexpire},
		{"pexpireat", -3, write | fast, one, inAll, pexpireAt},
		{"pttl", 2, readonly | fast, one, inAll, pttl},
		{"ttl", 2, readonly | fast, one, inAll, ttl},
		{"type", 2, readonly | fast, one, inAll, typeOf},
		{"unlink", -2, write | fast, all, inAll, del},

		// Strings.
		{"delex", -2, write | fast, one, inRedis84, delEx},
		{"delifeq", 3, write | fast, one, inValkey9, delIfEq},
		{"get", 2, readonly | fast, one, inAll, get},
		{"incr", 2, write | denyoom | fast, one, inAll, incr},
		{"set", -3, write | denyoom, one, inAll, set},
	}
}
