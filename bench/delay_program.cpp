// Delays links on kernels without netem. This program connects the two network devices (TAP) of
// each link: one inside a network namespace, and one outside, for a bridge. Frames sent into the
// inner device leave the outer one after the delay, in order. The other direction has no delay, so
// a frame between two namespaces is delayed once. The devices end with the program.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <truestep/problem/error.hpp>

#include "delay/delay_queue.hpp"

namespace {

using namespace truestep;
using bench::DelayQueue;
using Clock = std::chrono::steady_clock;

/// The largest frame that the kernel hands over: 64 KiB not yet cut into packets, with headers.
constexpr std::size_t largest_frame = 68 * 1024;

volatile std::sig_atomic_t ended = 0;

std::string why(const std::string& what) {
    return what + ": " + std::strerror(errno); // NOLINT(concurrency-mt-unsafe): there is one thread
}

/// A file descriptor that its destructor closes.
class File {
  public:
    File(const std::string& path, int flags) : number_(open(path.c_str(), flags | O_CLOEXEC)) {
        if (number_ < 0)
            throw Error(why(path) + "; this takes root, and a kernel with /dev/net/tun");
    }
    File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    File& operator=(File&&) = delete;
    ~File() {
        if (number_ >= 0)
            close(number_);
    }
    [[nodiscard]] int number() const { return number_; }

  private:
    int number_;
};

/// A TAP device in this thread's namespace. Frames of up to 64 KiB pass whole, preceded by the
/// kernel's header, and checksums that are not computed yet stay so.
File make_tap(const std::string& name) {
    File tap("/dev/net/tun", O_RDWR | O_NONBLOCK);
    ifreq request{};
    if (name.empty() || name.size() >= sizeof request.ifr_name)
        throw Error("device '" + name + "': a name has 1 to 15 letters");
    std::memcpy(request.ifr_name, name.c_str(), name.size());
    request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    if (ioctl(tap.number(), TUNSETIFF, &request) != 0) // NOLINT(cppcoreguidelines-pro-type-vararg)
        throw Error(why("device '" + name + "' cannot be made"));
    constexpr unsigned long whole = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
    if (ioctl(tap.number(), TUNSETOFFLOAD, whole) != 0) // NOLINT(cppcoreguidelines-pro-type-vararg)
        throw Error(why("device '" + name + "' takes no large frames"));
    return tap;
}

struct Link {
    File inner;
    File outer;
};

/// Parses NAMESPACE:INNER:OUTER.
Link make_link(const std::string& text) {
    const std::size_t first = text.find(':');
    const std::size_t second = text.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos)
        throw Error("link '" + text + "' is not one; it must be NAMESPACE:INNER:OUTER");
    const File here("/proc/self/ns/net", O_RDONLY);
    const File there("/run/netns/" + text.substr(0, first), O_RDONLY);
    if (setns(there.number(), CLONE_NEWNET) != 0)
        throw Error(why("namespace " + text.substr(0, first)));
    File inner = make_tap(text.substr(first + 1, second - first - 1));
    if (setns(here.number(), CLONE_NEWNET) != 0)
        throw Error(why("back from namespace " + text.substr(0, first)));
    return {std::move(inner), make_tap(text.substr(second + 1))};
}

class Relay {
  public:
    Relay(std::vector<Link> links, std::chrono::nanoseconds delay, std::size_t queue)
        : links_(std::move(links)), delay_(delay), held_(queue, largest_frame), passing_(largest_frame) {
        for (const Link& link : links_)
            for (const int number : {link.inner.number(), link.outer.number()})
                polled_.push_back({number, POLLIN, 0});
    }

    /// Runs until a signal ends it; signals are unblocked only during the wait.
    void run(const sigset_t& open_signals) {
        while (ended == 0) {
            timespec wait{};
            if (!held_.empty()) {
                const auto left = std::max(Clock::duration{0}, held_.front().due - Clock::now());
                wait.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
                wait.tv_nsec = std::chrono::nanoseconds(left % std::chrono::seconds(1)).count();
            }
            if (ppoll(polled_.data(), polled_.size(), held_.empty() ? nullptr : &wait, &open_signals) < 0 &&
                errno != EINTR)
                throw Error(why("poll"));
            release();
            for (std::size_t link = 0; link < links_.size(); ++link) {
                if (polled_[2 * link].revents != 0)
                    hold(link);
                if (polled_[2 * link + 1].revents != 0)
                    pass(link);
            }
        }
    }

    void report() const {
        const auto frames = static_cast<double>(std::max(frames_, 1LL));
        std::printf("held back: %lld frames, %.0f bytes; %lld dropped in the queue, %lld by a device; "
                    "late by %.0f us in the mean, at most by %.0f\n",
                    frames_, bytes_, dropped_, refused_, late_ / frames * 1e6, latest_ * 1e6);
    }

  private:
    /// Reads one frame from the device; returns 0 if there is none.
    static std::size_t take(const File& device, std::span<std::byte> to) {
        const ssize_t size = read(device.number(), to.data(), to.size());
        return size > 0 ? static_cast<std::size_t>(size) : 0;
    }

    void give(const File& device, std::span<const std::byte> frame) {
        const bool whole =
            write(device.number(), frame.data(), frame.size()) == static_cast<ssize_t>(frame.size());
        if (!whole && errno != EIO) // a device that is not up yet; kernels send each other packets before
            ++refused_;
    }

    /// Takes only a few frames, so that no link waits for another.
    void hold(std::size_t link) {
        for (int turn = 0; turn < few; ++turn) {
            const std::span<std::byte> room = held_.room();
            const std::size_t size = take(links_[link].inner, room.empty() ? std::span(passing_) : room);
            if (size == 0)
                return;
            if (room.empty())
                ++dropped_;
            else
                held_.push(size, link, Clock::now() + delay_);
            release();
        }
    }

    void pass(std::size_t link) {
        for (int turn = 0; turn < few; ++turn) {
            const std::size_t size = take(links_[link].outer, passing_);
            if (size == 0)
                return;
            give(links_[link].inner, std::span(passing_).first(size));
            release();
        }
    }

    /// Sends the frames that are due.
    void release() {
        while (!held_.empty()) {
            const DelayQueue::Frame& frame = held_.front();
            const std::chrono::duration<double> late = Clock::now() - frame.due;
            if (late.count() < 0)
                return;
            give(links_[frame.link].outer, held_.bytes(frame));
            late_ += late.count();
            latest_ = std::max(latest_, late.count());
            ++frames_;
            bytes_ += static_cast<double>(frame.size);
            held_.pop();
        }
    }

    static constexpr int few = 8;
    std::vector<Link> links_;
    std::chrono::nanoseconds delay_;
    DelayQueue held_;
    std::vector<std::byte> passing_;
    std::vector<pollfd> polled_; ///< of each link the inner device, then the outer one
    long long frames_ = 0;
    double bytes_ = 0;
    long long dropped_ = 0;
    long long refused_ = 0;
    double late_ = 0;   ///< seconds in total
    double latest_ = 0; ///< greatest value
};

/// Gives this program priority over all others, and timers of a microsecond, so that links never
/// wait for a processor.
void hurry() {
    prctl(PR_SET_TIMERSLACK, 1); // NOLINT(cppcoreguidelines-pro-type-vararg)
    sched_param first{};
    first.sched_priority = 1;
    if (sched_setscheduler(0, SCHED_FIFO, &first) != 0)
        std::fprintf(stderr, "bench_delay: %s; frames may be late\n", why("no real-time priority").c_str());
}

} // namespace

int main(int argc, char** argv) {
    std::vector<std::string> links;
    double delay = 0;
    std::size_t queue = std::size_t{256} << 20U;
    CLI::App app("Makes links between network namespaces and this one that hold back what is sent, until a "
                 "signal ends it.");
    app.add_option("--delay", delay, "as netem writes it: 0.1ms, 20ms")
        ->required()
        ->transform(
            CLI::AsNumberWithUnit(std::map<std::string, double>{{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}},
                                  CLI::AsNumberWithUnit::Options(CLI::AsNumberWithUnit::UNIT_REQUIRED |
                                                                 CLI::AsNumberWithUnit::CASE_SENSITIVE),
                                  "TIME"))
        ->check(CLI::Range(0.0, 10.0));
    app.add_option("--queue", queue, "bytes held at most; what comes then is dropped, and counted")
        ->capture_default_str();
    app.add_option("links", links, "NAMESPACE:INNER:OUTER, as many as there are")->required();
    CLI11_PARSE(app, argc, argv);
    try {
        prctl(PR_SET_PDEATHSIG, SIGTERM); // NOLINT(cppcoreguidelines-pro-type-vararg)
        sigset_t ending;
        sigset_t open_signals;
        sigemptyset(&ending);
        struct sigaction action {};
        action.sa_handler = [](int) { ended = 1; };
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
            sigaddset(&ending, signal);
            sigaction(signal, &action, nullptr);
        }
        sigprocmask(SIG_BLOCK, &ending, &open_signals);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP})
            sigdelset(&open_signals, signal);
        std::vector<Link> made;
        made.reserve(links.size());
        for (const std::string& text : links)
            made.push_back(make_link(text));
        hurry();
        Relay relay(
            std::move(made),
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(delay)),
            queue);
        std::puts("ready");
        std::fflush(stdout);
        relay.run(open_signals);
        relay.report();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_delay: %s\n", error.what());
        return 2;
    }
}
