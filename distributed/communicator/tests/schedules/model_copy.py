#!/usr/bin/env python3
"""Copies the communicator's, the peers' and the thread pool's sources into a form that runs under the model's scheduler.

What is concurrent in std gets the model's name, a few lines get shorter waits or say what memory they read, and the planted
mistakes are put in, each behind a switch that is off. Every line keeps its number. A text that does not stand in its file
exactly once, or a name of std that the model does not know, is an error: this list follows the sources.
Usage: model_copy.py COMMUNICATOR_FOLDER FOLDER
"""

import pathlib
import re
import sys

GROUP = "in_process_group.hpp"
EXCHANGES = "in_process.cpp"
THREADS = "rank_threads.hpp"
PEERS = "in_process_peers.cpp"
PEERS_HEADER = "truestep/distributed/peers.hpp"
POOL = "workers.cpp"
POOL_HEADER = "truestep/distributed/workers.hpp"
FILES = {GROUP: GROUP, EXCHANGES: EXCHANGES, THREADS: THREADS, PEERS: PEERS, POOL: POOL,
         "include/" + PEERS_HEADER: PEERS_HEADER, "include/" + POOL_HEADER: POOL_HEADER}

NAMES = {
    r"std::atomic<": "model::Atomic<",
    r"std::condition_variable\b": "model::ConditionVariable",
    r"std::jthread\b": "model::JoiningThread",
    r"std::mutex\b": "model::Mutex",
    r"std::shared_ptr<const void>": "model::Message",
    r"std::this_thread::yield\(\)": "model::yield()",
    r"std::thread\b": "model::Thread",
    r"std::chrono::steady_clock::now\(\)": "model::now()",
    r"std::memcpy\(": "model::copy(",
}
UNKNOWN = re.compile(r"\b(std::(atomic|mutex|j?thread|this_thread|condition_variable|shared_mutex|timed_mutex|recursive_|future|promise|async|"
                     r"call_once|once_flag|barrier|latch|(counting|binary)_semaphore|stop_|shared_lock|scoped_lock)\w*|memory_order\w*|"
                     r"volatile|thread_local|\w+_clock::now)\b")

# Plain memory that threads share, and loops whose length is only a matter of speed.
TUNED = [
    (GROUP, "Operation operation{};", "model::Plain<Operation> operation{};"),
    (GROUP, "bool present = false;", "model::Plain<bool> present = false;"),
    (GROUP, "const std::byte* send = nullptr;", "model::Plain<const std::byte*> send = nullptr;"),
    (GROUP, "load() : meeting.posts[rank].present)", "load() : static_cast<bool>(meeting.posts[rank].present))"),
    (GROUP, "std::string reason_;", "model::Plain<std::string> reason_;"),
    (GROUP, "std::vector<bool> claimed_;", "std::vector<model::Plain<bool>> claimed_;"),
    (GROUP, "std::vector<bool> left_;", "std::vector<model::Plain<bool>> left_;"),
    (GROUP, "constexpr std::size_t at_first = 16;", "constexpr std::size_t at_first = 1;"),
    (GROUP, "constexpr int looks = 64;", "constexpr int looks = 1;"),
    (GROUP, "constexpr int yields = 8;", "constexpr int yields = 1;"),
    # The reports of a timeout only read what threads write whole, and what they print is for people.
    (GROUP, "made_ = std::chrono::steady_clock::now();", "made_{};"),
    (GROUP, "const std::string waits = waits_report();", "const std::string waits;"),
    (PEERS, "const std::string waits = waits_report();\n        if (!reported_.exchange(true))\n            std::fputs(waits.c_str(), stderr);", "\n\n"),
    (EXCHANGES, "std::copy_n(values_of(lane) + begin, values, sum);",
     "model::copy(sum, values_of(lane) + begin, values * sizeof(float));"),
    (EXCHANGES, "std::copy_n(sums.data(), values, receive + begin);",
     "model::copy(receive + begin, sums.data(), values * sizeof(float));"),
    (EXCHANGES, "for (std::size_t i = 0; i < count; ++i)\n            sum[i]",
     "model::read(values, count * sizeof(float)); for (std::size_t i = 0; i < count; ++i)\n            sum[i]"),
    (PEERS, "bool come = false;", "model::Plain<bool> come = false;"),
    (PEERS, "bool dropped = false;", "model::Plain<bool> dropped = false;"),
    (PEERS, "bool ended = false;", "model::Plain<bool> ended = false;"),
    (PEERS, "bool closed = false;", "model::Plain<bool> closed = false;"),
    (PEERS, "std::vector<bool> claimed_;", "std::vector<model::Plain<bool>> claimed_;"),
    (PEERS_HEADER, "const std::shared_ptr<Message>& message", "const Message& message"),
    (PEERS_HEADER, "std::shared_ptr<Message>(message)", "Message(message)"),
    (POOL_HEADER, "const Task* task_ = nullptr;", "model::Plain<const Task*> task_{nullptr};"),
    (POOL_HEADER, "std::size_t round_ = 0;", "model::Plain<std::size_t> round_{0};"),
    (POOL_HEADER, "int busy_ = 0;", "model::Plain<int> busy_{0};"),
    (POOL_HEADER, "bool stop_ = false;", "model::Plain<bool> stop_{false};"),
]

# By number: docs/schedules.md tells what each is.
PLANTED = [
    (1, GROUP, "if (complete)\n            announce();", "if (complete && !model::planted(1))\n            announce();"),
    (2, GROUP, "taken.fetch_add(1) + 1 == claimed_.size())\n            announce();",
     "taken.fetch_add(1) + 1 == claimed_.size() && !model::planted(2))\n            announce();"),
    (3, GROUP, "any_left_ = true;\n        }\n        announce();",
     "any_left_ = true;\n        }\n        if (!model::planted(3)) announce();"),
    (4, GROUP, "changed_.notify_all();", "if (model::planted(4)) changed_.notify_one(); else changed_.notify_all();"),
    (5, GROUP, "{ const std::lock_guard lock(mutex_); } //", "if (!model::planted(5)) { const std::lock_guard lock(mutex_); } //"),
    (6, GROUP, "sleepers_.fetch_add(1);",
     "if (model::planted(6) && events_ != seen) return true; sleepers_.fetch_add(1); "
     "if (model::planted(6)) { (void)changed_.wait_until(lock, deadline); sleepers_.fetch_sub(1); return events_ != seen; }"),
    (7, GROUP, "const std::uint64_t seen = events_;\n            if (ready())\n                break;\n            throw_if",
     "std::uint64_t seen = events_;\n            if (ready())\n                break;\n"
     "            seen = model::planted(7) ? events_.load() : seen; throw_if"),
    (8, GROUP, "copying_.fetch_add(1);\n        const bool allowed = !aborted_;",
     "const bool early = model::planted(8) && !aborted_; copying_.fetch_add(1);\n"
     "        const bool allowed = model::planted(8) ? early : !aborted_;"),
    (9, GROUP, "announce();\n        while (copying_ > 0)", "announce();\n        while (!model::planted(9) && copying_ > 0)"),
    (10, GROUP, "reason = reason_;\n        }\n        while (copying_ > 0)",
     "reason = reason_;\n        }\n        while (!model::planted(10) && copying_ > 0)"),
    (11, EXCHANGES, "return taken_ && meeting_->all_taken();", "return taken_ && (model::planted(11) || meeting_->all_taken());"),
    (12, POOL, "begin_.wait(lock, [&] { return stop_ || round_ != seen; });",
     "if (model::planted(12)) begin_.wait(lock); else begin_.wait(lock, [&] { return stop_ || round_ != seen; });"),
    (13, POOL, "begin_.notify_all();\n    task(", "if (model::planted(13)) begin_.notify_one(); else begin_.notify_all();\n    task("),
    (14, POOL, "if (--busy_ == 0)", "if (--busy_ == (model::planted(14) ? 1 : 0))"),
    (15, POOL, "const std::lock_guard lock(mutex_);\n        stop_ = true;",
     "std::unique_lock lock(mutex_); if (model::planted(15)) lock.unlock();\n        stop_ = true; if (model::planted(15)) lock.lock();"),
    (16, POOL, "task_ = &task;\n        busy_ = static_cast<int>(threads_.size());\n        ++round_;\n    }",
     "task_ = &task;\n        busy_ = static_cast<int>(threads_.size());\n        if (!model::planted(16)) ++round_;\n    } if (model::planted(16)) ++round_;"),
    (17, GROUP, "if (ranks.empty())", "if (ranks.empty() && !model::planted(17))"),
    (18, PEERS, "slot->come = true;\n        }\n        box.changed.notify_one();",
     "slot->come = true;\n        }\n        if (!model::planted(18)) box.changed.notify_one();"),
    (19, PEERS, "channel.end = end;\n            }\n            box.changed.notify_one();",
     "channel.end = end;\n            }\n            if (!model::planted(19)) box.changed.notify_one();"),
    (20, PEERS, ".message = std::move(message)}", ".message = model::planted(20) ? message.not_held() : std::move(message)}"),
    (21, PEERS_HEADER, "Message(message).reset();", "if (!model::planted(21)) Message(message).reset();"),
    (22, PEERS, "                const std::lock_guard lock(box.mutex);\n                Channel& channel",
     "                std::unique_lock lock(box.mutex); if (model::planted(22)) lock.unlock();\n                Channel& channel"),
    (23, PEERS, "if (box.closed)", "if (box.closed && !model::planted(23))"),
]


def fail(text):
    sys.exit(f"model_copy.py: {text}")


def copy(source, name):
    text = source.read_text(encoding="utf-8")
    for what, file, found, new in [("tuned", *row) for row in TUNED] + [(f"mistake {row[0]}", *row[1:]) for row in PLANTED]:
        if file != name:
            continue
        if text.count(found) != 1:
            fail(f"{what}: stands {text.count(found)} times in {source}, not once: {found!r}")
        if found.count("\n") != new.count("\n"):
            fail(f"{what}: moves lines")
        text = text.replace(found, new)
    for found, new in NAMES.items():
        text = re.sub(found, new, text)
    code = re.sub(r"//[^\n]*", "", text)
    unknown = UNKNOWN.search(code)
    if unknown:
        fail(f"{source}: the model has no {unknown.group()}")
    return f'#include "model.hpp"\n#line 1 "{source.name}"\n{text}'


def main():
    if len(sys.argv) != 3:
        fail("Usage: model_copy.py COMMUNICATOR_FOLDER FOLDER")
    folder, out = map(pathlib.Path, sys.argv[1:])
    for source, name in FILES.items():
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(copy(folder / source, name), encoding="utf-8")


main()
