package fakeredis

import (
	"crypto/sha1"
	"encoding/hex"
)

// raised is the reply to a script that raised an error in its first line.
func raised(text, script string) string { return raisedAt(text, script, "1") }

func raisedAt(text, script, line string) string {
	sum := sha1.Sum([]byte(script))
	return text + " script: " + hex.EncodeToString(sum[:]) + ", on @user_script:" + line + "."
}

// script is a row of a script that is called without keys and arguments.
func script(source, want string) row { return row{cmd: `EVAL "` + source + `" 0`, want: want} }

// fails is a row of a script that raises text in its first line.
func fails(source, text string) row { return script(source, raised(text, source)) }

// differ gives a row another reply in RESP3.
func differ(r row, want3 string) row {
	r.want3 = want3
	return r
}

// after gives a row a set-up.
func after(setup string, r row) row {
	r.setup = setup
	return r
}

const (
	compareAndDelete = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
	compareAndExpire = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end"
)

var rowsEval = []row{
	script("return 1", ":1"),
	script("return -3", ":-3"),
	script("return 3.99", ":3"),
	script("return -3.99", ":-3"),
	script("return 9007199254740993", ":9007199254740992"),
	script("return 1e300", ":-9223372036854775808"),
	script("return 0/0", ":-9223372036854775808"),
	script("return 1/0", ":-9223372036854775808"),
	script("return 'a'", "$1\na"),
	script("return ''", "$0\n"),
	script("return nil", "_"),
	script("return", "_"),
	script("local x = 1", "_"),
	script("return true", ":1"),
	script("return false", "_"),
	script("return {}", "*0"),
	script("return {1,2,nil,4}", "*2\n:1\n:2"),
	script("return {1,{2,'x'},true,false}", "*4\n:1\n*2\n:2\n$1\nx\n:1\n_"),
	script("return {1,function() end,3}", "*3\n:1\n_\n:3"),
	script("return {['a']=1}", "*0"),
	script("return function() end", "_"),
	script("return {ok='fine'}", "+fine"),
	script("return {err='MY bad'}", "-MY bad"),
	script("return {err='bad'}", "-bad"),
	script("return {err='a\\nb'}", "-a b"),
	script("return {{err='X y'},{ok='z'}}", "*2\n-X y\n+z"),
	script("return redis.status_reply('good')", "+good"),
	script("return redis.status_reply('a\\r\\nb')", "+a  b"),
	script("return redis.status_reply()", "-ERR wrong number or type of arguments"),
	script("return redis.error_reply('bad')", "-ERR bad"),
	script("return redis.error_reply('MY bad')", "-MY bad"),
	script("return redis.error_reply('-MY bad')", "-MY bad"),
	script("return redis.error_reply('-bad')", "-ERR bad"),
	script("return redis.error_reply('')", "-ERR "),
	script("return redis.error_reply('a\\r\\nb')", "-ERR a  b"),
	script("return redis.error_reply(1)", "-ERR wrong number or type of arguments"),
	script("return redis.error_reply('a').err", "$5\nERR a"),
	differ(script("return {double=3.5}", "$3\n3.5"), ",3.5"),
	differ(script("return {double=3}", "$1\n3"), ",3"),
	differ(script("return {double=1e100}", "$6\n1e+100"), ",1e+100"),
	differ(script("return {double=1/0}", "$3\ninf"), ",inf"),
	differ(script("return {map={a='b'}}", "*2\n$1\na\n$1\nb"), "%1\n$1\na\n$1\nb"),
	differ(script("return {set={a=true}}", "*1\n$1\na"), "~1\n$1\na"),
	differ(script("return {big_number='123'}", "$3\n123"), "(123"),
	differ(script("return {verbatim_string={format='txt',string='abc'}}", "$3\nabc"), "=7\ntxt:abc"),
	{cmd: `EVAL "return {KEYS[1],KEYS[2],ARGV[1],ARGV[2],KEYS[3]}" 2 k1 k2 a b`, want: "*4\n$2\nk1\n$2\nk2\n$1\na\n$1\nb"},
	{cmd: `EVAL "return #KEYS + 10*#ARGV" 1 k a b`, want: ":21"},
	{cmd: `EVAL "return KEYS" 0`, want: "*0"},
	{cmd: `EVAL "return ARGV" 0 a b`, want: "*2\n$1\na\n$1\nb"},
	script("return redis.sha1hex('')", "$40\nda39a3ee5e6b4b0d3255bfef95601890afd80709"),
	script("return redis.sha1hex(1)", "$40\n356a192b7913b04c54574d18c28d46e6395428ab"),
	script("return string.format('%d %s', 3, 'x') .. #('abc')", "$4\n3 x3"),
	script("return math.floor(3.7)", ":3"),
	script("local t = {3,1,2} table.sort(t) return t", "*3\n:1\n:2\n:3"),
	script("return tostring(12)", "$2\n12"),
	script("return tonumber('12') + 1", ":13"),
	script("return {pcall(function() return 5 end)}", "*2\n:1\n:5"),
	script("local s = 0 for i = 1, 100 do s = s + i end return s", ":5050"),
	script("return ('abc'):upper()", "$3\nABC"),
	script("return type(redis.call)", "$8\nfunction"),
	{cmd: "EVAL", want: arity("eval")},
	{cmd: `EVAL "return 1"`, want: arity("eval")},
	{cmd: `EVAL "return 1" x`, want: notInt},
	{cmd: `EVAL "return 1" 1`, want: "-ERR Number of keys can't be greater than number of args"},
	{cmd: `EVAL "return 1" -1`, want: "-ERR Number of keys can't be negative"},
	{cmd: `EVAL "" 0`, want: "_"},
}

var rowsScriptCall = []row{
	after("SET k mine", row{cmd: `EVAL "` + compareAndDelete + `" 1 k mine`, want: ":1"}),
	after("SET k other", row{cmd: `EVAL "` + compareAndDelete + `" 1 k mine`, want: ":0"}),
	{cmd: `EVAL "` + compareAndDelete + `" 1 k mine`, want: ":0"},
	after("SET k mine PX 1000", row{cmd: `EVAL "` + compareAndExpire + `" 1 k mine 100000`, want: ":1"}),
	after("SET k mine; EVAL \""+compareAndExpire+"\" 1 k mine 100000", row{cmd: "TTL k", want: ":100"}),
	script("return redis.call('set','k','v')", "+OK"),
	script("return redis.call('set','k','v').ok", "$2\nOK"),
	script("return redis.call('SET','k','v','NX','PX','100')", "+OK"),
	after("SET k v", script("return redis.call('set','k','v','nx')", "_")),
	script("return redis.call('get','nope')", "_"),
	script("return redis.call('get','nope') == false", ":1"),
	script("return tostring(redis.call('get','nope'))", "$5\nfalse"),
	after("SET k v", script("return redis.call('get','k')", "$1\nv")),
	after("SET k v", script("return type(redis.call('del','k'))", "$6\nnumber")),
	after("SET k v", script("return {redis.call('keys','*')}", "*1\n*1\n$1\nk")),
	script("return redis.call('time')[1] ~= nil", ":1"),
	script("return redis.call('ping')", "+PONG"),
	script("return redis.call('echo','x')", "$1\nx"),
	script("return redis.call('flushall')", "+OK"),
	script("return redis.call('dbsize')", ":0"),
	after("SET k v", script("return redis.call('type','k')", "+string")),
	script("return redis.call('type','k').ok", "$4\nnone"),
	script("redis.call('set','k',1.5) return redis.call('get','k')", "$3\n1.5"),
	script("redis.call('set','k',1e15) return redis.call('get','k')", "$16\n1000000000000000"),
	script("redis.call('set','k',1e17) return redis.call('get','k')", "$5\n1e+17"),
	script("redis.call('set','k',123456789012345678) return redis.call('get','k')", "$22\n1.2345678901234568e+17"),
	script("redis.call('set','k',0.1) return redis.call('get','k')", "$19\n0.10000000000000001"),
	script("redis.call('set','k',-7) return redis.call('get','k')", "$2\n-7"),
	script("redis.call('set',1,2) return redis.call('get','1')", "$1\n2"),
	after("SELECT 1; SET k one; SELECT 0; SET k zero", script("redis.call('select',1) return redis.call('get','k')", "$3\none")),
	after("SET k zero; EVAL \"return redis.call('select',1)\" 0", row{cmd: "GET k", want: "$4\nzero"}),
	script("return redis.pcall('set','k','v')", "+OK"),
	script("return redis.pcall('nope')", "-ERR Unknown Redis command called from script"),
	script("return redis.pcall('get')", "-ERR Wrong number of args calling Redis command from script"),
	script("return redis.pcall()", "-ERR Please specify at least one argument for this redis lib call"),
	script("return redis.pcall('set','k','v','foo')", "-ERR syntax error"),
	after("SET k x", script("return redis.pcall('incr','k')", notInt)),
	after("SET k x", script("return redis.pcall('incr','k').err", "$43\nERR value is not an integer or out of range")),
	after("SET k x", script("return redis.pcall('incr','k')['err'] ~= nil", ":1")),
	after("HSET h", script("return redis.pcall('get','h')", wrongType)),
	after("SET k x", script("local ok, e = pcall(redis.call,'incr','k') return {ok, e}", "*2\n_\n$43\nERR value is not an integer or out of range")),
	after("SET k v EX 100", script("redis.call('set','k','w','keepttl') return redis.call('ttl','k')", ":100")),
	after("SET a 1; SET b 2", script("return redis.call('exists','a','b','c')", ":2")),
	after("SET k v", script("return redis.call('pttl','k')", ":-1")),
}

var rowsScriptErrors = []row{
	fails("error('boom')", "-ERR user_script:1: boom"),
	fails("error({err='X boom'})", "-X boom"),
	fails("error({err='boom'})", "-boom"),
	fails("local function f() error('in f') end f()", "-ERR user_script:1: in f"),
	fails("return foo", "-ERR user_script:1: Script attempted to access nonexistent global variable 'foo'"),
	fails("return os.time()", "-ERR user_script:1: Script attempted to access nonexistent global variable 'os'"),
	fails("return io", "-ERR user_script:1: Script attempted to access nonexistent global variable 'io'"),
	fails("return require('x')", "-ERR user_script:1: Script attempted to access nonexistent global variable 'require'"),
	fails("return print", "-ERR user_script:1: Script attempted to access nonexistent global variable 'print'"),
	fails("return dofile", "-ERR user_script:1: Script attempted to access nonexistent global variable 'dofile'"),
	fails("foo = 1", "-ERR user_script:1: Attempt to modify a readonly table"),
	fails("KEYS = {} return 1", "-ERR user_script:1: Attempt to modify a readonly table"),
	fails("redis = 1", "-ERR user_script:1: Attempt to modify a readonly table"),
	fails("string.foo = 1", "-ERR user_script:1: Attempt to modify a readonly table"),
	fails("redis.call = 1", "-ERR user_script:1: Attempt to modify a readonly table"),
	fails("return redis.sha1hex()", "-ERR wrong number of arguments"),
	fails("return redis.call()", "-ERR Please specify at least one argument for this redis lib call"),
	fails("return redis.call({})", "-ERR Lua redis lib command arguments must be strings or integers"),
	fails("return redis.call('set','k',true)", "-ERR Lua redis lib command arguments must be strings or integers"),
	fails("return redis.call('set','k',nil)", "-ERR Lua redis lib command arguments must be strings or integers"),
	fails("return redis.call('get')", "-ERR Wrong number of args calling Redis command from script"),
	fails("return redis.call('nope')", "-ERR Unknown Redis command called from script"),
	fails("return redis.call('set','k','v','foo')", "-ERR syntax error"),
	fails("return redis.call('select',16)", "-ERR DB index is out of range"),
	after("SET k x", fails("return redis.call('incr','k')", notInt)),
	after("HSET h", fails("return redis.call('get','h')", wrongType)),
	fails("return redis.call('eval','return 1','0')", "-ERR This Redis command is not allowed from script"),
	fails("return redis.call('evalsha','x','0')", "-ERR This Redis command is not allowed from script"),
	fails("return redis.call('auth','x')", "-ERR This Redis command is not allowed from script"),
	fails("return redis.call('hello','3')", "-ERR This Redis command is not allowed from script"),
	fails("return redis.call('client','id')", "-ERR This Redis command is not allowed from script"),
	fails("return redis.call('config','get','save')", "-ERR This Redis command is not allowed from script"),
	fails("return redis.call('script','flush')", "-ERR This Redis command is not allowed from script"),
	fails("return redis.call('role')", "-ERR This Redis command is not allowed from script"),
	fails("return redis.call('quit')", "-ERR This Redis command is not allowed from script"),
	script("\n\nerror('x')", raisedAt("-ERR user_script:3: x", "\n\nerror('x')", "3")),
	script("\n\nredis.call('get')", raisedAt("-ERR Wrong number of args calling Redis command from script", "\n\nredis.call('get')", "3")),
	script("local x = nil + 1", `re:-ERR user_script:1: [^\r]* script: [0-9a-f]{40}, on @user_script:1\.`),
	script("local x = nil x.y = 1", `re:-ERR user_script:1: [^\r]* script: [0-9a-f]{40}, on @user_script:1\.`),
	script("return = 1", "-ERR Error compiling script (new function): user_script:1: unexpected symbol near '='"),
	script("return 1 1", `re:-ERR Error compiling script \(new function\): user_script:1: [^\r]*`),
	script("if true then", `re:-ERR Error compiling script \(new function\): user_script:[^\r]*`),
	script("return 'x", `re:-ERR Error compiling script \(new function\): user_script:[^\r]*`),
}

const (
	sha1OfReturn1 = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
	noScript      = "-NOSCRIPT No matching script. Please use EVAL."
	flushOption   = "-ERR SCRIPT FLUSH only support SYNC|ASYNC option"
)

var rowsScriptCache = []row{
	{cmd: `SCRIPT LOAD "return 1"`, want: "$40\n" + sha1OfReturn1},
	{setup: `SCRIPT LOAD "return 1"`, cmd: "EVALSHA " + sha1OfReturn1 + " 0", want: ":1"},
	{setup: `SCRIPT LOAD "return 1"`, cmd: "EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0", want: ":1"},
	{setup: `EVAL "return 1" 0`, cmd: "EVALSHA " + sha1OfReturn1 + " 0", want: ":1"},
	{setup: `SCRIPT LOAD "return {KEYS[1],ARGV[1]}"`, cmd: "EVALSHA bfbf458525d6a0b19200bfd6db3af481156b367b 1 k a", want: "*2\n$1\nk\n$1\na"},
	{cmd: "EVALSHA " + sha1OfReturn1 + " 0", want: noScript},
	{cmd: "EVALSHA abc 0", want: noScript},
	{cmd: "EVALSHA abc x", want: noScript},
	{cmd: "EVALSHA " + sha1OfReturn1 + " x", want: notInt},
	{cmd: "EVALSHA " + sha1OfReturn1 + " 1", want: "-ERR Number of keys can't be greater than number of args"},
	{cmd: "EVALSHA abc", want: arity("evalsha")},
	{setup: `SCRIPT LOAD "return 1"; SCRIPT FLUSH`, cmd: "EVALSHA " + sha1OfReturn1 + " 0", want: noScript},
	{setup: `SCRIPT LOAD "return 1"; FLUSHALL`, cmd: "EVALSHA " + sha1OfReturn1 + " 0", want: ":1"},
	{setup: `SCRIPT LOAD "return 1"`, cmd: "SCRIPT EXISTS " + sha1OfReturn1 + " x E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", want: "*3\n:1\n:0\n:1"},
	{cmd: "SCRIPT EXISTS", want: arity("script|exists")},
	{cmd: "SCRIPT LOAD", want: arity("script|load")},
	{cmd: `SCRIPT LOAD "return ="`, want: `re:-ERR Error compiling script \(new function\): user_script:1: [^\r]*`},
	{cmd: "SCRIPT FLUSH", want: "+OK"},
	{cmd: "SCRIPT FLUSH ASYNC", want: "+OK"},
	{cmd: "SCRIPT FLUSH sync", want: "+OK"},
	{cmd: "SCRIPT FLUSH x", want: flushOption},
	{cmd: "SCRIPT FLUSH sync x", want: flushOption},
	{cmd: "SCRIPT", want: arity("script")},
	{cmd: "SCRIPT FOO", want: "-ERR unknown subcommand 'FOO'. Try SCRIPT HELP."},
}

const delThenSet = "redis.call('del','full') return redis.call('set','k','v')"

// rowsStates are the faults that a real server can be brought into as well.
var rowsStates = []row{
	{state: "oom", cmd: "SET k v", want: oom},
	{state: "oom", cmd: "SET k v FOO", want: oom},
	{state: "oom", cmd: "SET", want: arity("set")},
	{state: "oom", setup: "SET full 1", cmd: "SET full 2 IFEQ 1", want: oom, in: both},
	{state: "oom", setup: "SET full 1", cmd: "DELIFEQ full 1", want: ":1", in: inValkey9},
	{state: "oom", setup: "SET full 1", cmd: "DELEX full IFEQ 1", want: ":1", in: inRedis84},
	{state: "oom", cmd: "INCR n", want: oom},
	{state: "oom", setup: "SET full 1", cmd: "GET full", want: "$1\n1"},
	{state: "oom", setup: "SET full 1", cmd: "DEL full", want: ":1"},
	{state: "oom", setup: "SET full 1", cmd: "PEXPIRE full 10000", want: ":1"},
	{state: "oom", cmd: `SCRIPT LOAD "return 1"`, want: "$40\n" + sha1OfReturn1},
	{state: "oom", cmd: `EVAL "return redis.call('set','k','v')" 0`, want: raised(oom, "return redis.call('set','k','v')")},
	{state: "oom", cmd: `EVAL "return redis.pcall('set','k','v')" 0`, want: oom},
	{state: "oom", setup: "SET full 1", cmd: `EVAL "` + compareAndExpire + `" 1 full 1 5000`, want: ":1"},
	{state: "oom", setup: "SET full 1", cmd: `EVAL "` + compareAndDelete + `" 1 full 1`, want: ":1"},
	{state: "oom", setup: "SET full 1", cmd: `EVAL "` + delThenSet + `" 0`, want: "+OK"},

	{state: "denied", cmd: "INFO", want: "-NOPERM this user has no permissions to run the 'info' command", in: inRedis70},
	{state: "denied", cmd: "CLIENT ID", want: "-NOPERM this user has no permissions to run the 'client|id' command", in: inRedis70},
	{state: "denied", cmd: "EVALSHA abc 0", want: "-NOPERM this user has no permissions to run the 'evalsha' command", in: inRedis70},
	{state: "denied", cmd: "INFO", want: "-NOPERM User default has no permissions to run the 'info' command", in: both},
	{state: "denied", cmd: "CLIENT ID", want: "-NOPERM User default has no permissions to run the 'client|id' command", in: both},
	{state: "denied", cmd: "CLIENT GETNAME", want: "_"},
	{state: "denied", cmd: "INFO a b c", want: "-NOPERM this user has no permissions to run the 'info' command", in: inRedis70},
	{state: "denied", cmd: `EVAL "return redis.call('info')" 0`, want: raised("-ERR The user executing the script can't run this command or subcommand", "return redis.call('info')")},
}
