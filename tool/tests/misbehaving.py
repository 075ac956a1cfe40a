"""The plain example program, which does one thing wrong: misbehaving.py EXAMPLE WHAT [MARK]

With MARK it does so in the third step of its rank 1 alone, and never again once the file MARK is there."""

import json
import os
import pathlib
import sys
import time

example, what, *mark = sys.argv[1:]
program = {"__name__": "example"}
source = pathlib.Path(example).read_text(encoding="utf-8")
assert source.endswith("\nmain()\n")
exec(compile(source.removesuffix("main()\n"), example, "exec"), program)  # pylint: disable=exec-used
right_answer, write, rank = program["answer"], program["write"], program["RANK"]
steps = 0


def now():
    """Whether this is the time to do it."""
    if not mark:
        return True
    if rank != 1 or steps != 3 or os.path.exists(mark[0]):
        return False
    pathlib.Path(mark[0]).write_text(str(os.getpid()), encoding="utf-8")
    return True


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(message, optimizer):
    global steps
    result = right_answer(message, optimizer)
    steps += message["do"] == "step"
    if message["do"] == "hello" and what == "alone" and message["workers"] > 1:
        for number in range(20):
            print("complaint", number, file=sys.stderr)
        sys.exit("no port for more than one")
    if message["do"] == "hello" and what.startswith("{"):
        return {**result, **json.loads(what)}
    if message["do"] == "view" and what in ("short", "long", "nothing", "nan") and now():
        path = message["into"]["parameters"]
        data = pathlib.Path(path).read_bytes()
        os.remove(path)
        if what != "nothing":
            write(path, {"short": data[:-4], "long": data + b"1234", "nan": data[:-4] + b"\0\0\xc0\x7f"}[what])
    if message["do"] != "step" or what.startswith("{") or what in ("short", "long", "nothing", "nan") or not now():
        return result
    if what == "dies":
        print("half a thought", file=sys.stderr)
        sys.exit("I cannot go on")
    if what == "crashes":
        os.abort()
    if what == "hangs":
        time.sleep(100000)
    if what == "rubbish":
        say("loss: 0.25")
    if what == "unfinished":
        sys.stdout.write('{"id":')
        sys.stdout.flush()
        time.sleep(100000)
    if what == "twice":
        say(json.dumps({"id": message["id"], **result}))
    if what == "closes":
        os.close(1)
        time.sleep(100000)
    if what == "says_nan":
        return {"did": "refused", "rank": 0, "index": float("nan")}
    if what == "elsewhere":
        return {"did": "refused", "rank": 7, "index": 0}
    if what == "wrong_word":
        return {"did": "case"}
    if what == "complains":
        return {"did": "error", "text": "out of ideas"}
    return result


program["answer"] = answer
program["main"]()
