// A warp's turn: which of its lanes run, branches, barriers, votes, shuffles.
#include "turn.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include <truestep/simulator/fault.hpp>

namespace truestep::simulator {

namespace {

constexpr int nowhere = std::numeric_limits<int>::max();

int first_of(Lanes set) {
    return std::countr_zero(set);
}

/// The lane whose value a lane gets, or -1 if it keeps its own, by PTX's rule: the low bits of
/// `limits` have the end of the lane's part of the warp, and the bits from 8 on name the part.
int partner(Shuffle shuffle, int lane, int by, int limits) {
    constexpr int bits = lanes - 1;
    const int part = limits >> 8 & bits;
    const int last = (lane & part) | (limits & bits & ~part);
    by &= bits;
    switch (shuffle) {
    case Shuffle::up:
        return lane - by >= last ? lane - by : -1;
    case Shuffle::down:
        return lane + by <= last ? lane + by : -1;
    case Shuffle::butterfly:
        return (lane ^ by) <= last ? lane ^ by : -1;
    case Shuffle::index:
        break;
    }
    const int other = (lane & part) | (by & ~part);
    return other <= last ? other : -1;
}

class Turn {
  public:
    Turn(Warp& warp, std::uint64_t instructions) : warp_(warp), left_(instructions) {}

    void take() {
        while (left_ > 0 && warp_.ready() != 0) {
            choose();
            run();
            park(group_, at_);
        }
    }

  private:
    void park(Lanes set, int at) {
        for_each(set, [&](int lane) { warp_.next[static_cast<std::size_t>(lane)] = at; });
    }

    /// Chooses the lanes that run together, all at one instruction: usually the earliest one, so
    /// that diverged lanes meet again; sometimes any.
    void choose() {
        const Lanes ready = warp_.ready();
        std::mt19937_64& random = *warp_.block->random;
        const bool any = (random() & 7U) == 0;
        auto skip = any ? random() % static_cast<unsigned>(std::popcount(ready)) : 0;
        meeting_ = nowhere;
        group_ = ready;
        if (ready == ~Lanes{0} && all_at(warp_.next[0])) {
            at_ = warp_.next[0];
            return;
        }
        at_ = nowhere;
        int last = 0;
        for_each(ready, [&](int lane) {
            const int next = warp_.next[static_cast<std::size_t>(lane)];
            at_ = std::min(at_, next);
            last = std::max(last, next);
        });
        if (at_ == last)
            return;
        if (any) {
            Lanes left = ready;
            for (; skip > 0; --skip)
                left &= left - 1;
            at_ = warp_.next[static_cast<std::size_t>(first_of(left))];
        }
        group_ = 0;
        for_each(ready, [&](int lane) {
            const int next = warp_.next[static_cast<std::size_t>(lane)];
            if (next == at_)
                group_ |= Lanes{1} << lane;
            else if (next > at_)
                meeting_ = std::min(meeting_, next);
        });
    }

    /// Whether all 32 lanes are there. It has no branches, since the answer is usually yes.
    [[nodiscard]] bool all_at(int place) const {
        int other = 0;
        for (const int next : warp_.next)
            other |= next ^ place;
        return other == 0;
    }

    /// Runs the group until a new one has to be chosen.
    void run() {
        const Instruction* const code = warp_.kernel->code.data();
        while (left_ > 0 && at_ != meeting_) {
            const Instruction& i = code[at_];
            Lanes on = group_;
            if (i.guard >= 0)
                on &= i.negated ? ~warp_.predicate(i.guard) : warp_.predicate(i.guard);
            if (i.kind == Kind::plain) {
                warp_.running = on;
                if (on != 0)
                    i.execute(warp_, i);
                ++at_;
            } else if (!turn(i, on)) {
                return;
            }
            --left_;
        }
    }

    /// Runs an instruction that is not plain. Returns false if a new group has to be chosen.
    bool turn(const Instruction& i, Lanes on) {
        switch (i.kind) {
        case Kind::branch:
            return branch(i, on);
        case Kind::vote:
            vote(i);
            return false;
        case Kind::shuffle:
            shuffle(i);
            return false;
        case Kind::end:
            warp_.live &= ~on;
            break;
        case Kind::barrier:
            warp_.at_barrier |= on;
            break;
        case Kind::plain:
        case Kind::beyond:
            throw Fault("the code of " + warp_.kernel->readable_name() + " ends without ret");
        }
        ++at_;
        return false;
    }

    bool branch(const Instruction& i, Lanes on) {
        if (on == 0) {
            ++at_;
            return true;
        }
        if (on != group_) {
            park(on, i.target);
            group_ &= ~on;
            ++at_;
            return false;
        }
        const bool back = i.target <= at_;
        at_ = i.target;
        // Lanes must not run ahead of those that wait at a later place, nor leave them waiting for
        // ever in a loop.
        return meeting_ == nowhere || (!back && at_ <= meeting_);
    }

    /// The members of a vote or a shuffle once all have come; none before that.
    Lanes met(const Instruction& i, const std::string& name) {
        const std::uint64_t* const members = warp_.values(i.a);
        const auto named = static_cast<Lanes>(members[first_of(group_)]);
        Lanes others = ~group_ | ~named;
        for (int lane = 0; lane < lanes; ++lane)
            others |= static_cast<Lanes>(members[lane]) ^ named;
        if (others != 0) // not all 32 of all 32
            for_each(group_, [&](int lane) {
                if (static_cast<Lanes>(members[lane]) != named)
                    fault(warp_, i, lane, "threads of one " + name + " name different members");
                if ((named >> lane & 1U) == 0)
                    fault(warp_, i, lane, "a thread that is not a member of its own " + name);
            });
        if ((named & ~warp_.live) != 0)
            fault(warp_, i, first_of(group_),
                  "a " + name + " with a member that has ended, thread " +
                      std::to_string(warp_.first_thread + first_of(named & ~warp_.live)));
        warp_.at_vote |= group_;
        park(group_, at_);
        Lanes here = 0;
        for_each(warp_.at_vote, [&](int lane) {
            here |= static_cast<Lanes>(warp_.next[static_cast<std::size_t>(lane)] == at_) << lane;
        });
        return (here & named) == named ? named : 0;
    }
    void go_on(Lanes named) {
        warp_.at_vote &= ~named;
        park(named, at_ + 1);
        group_ = 0; // parked
    }

    void vote(const Instruction& i) {
        const Lanes named = met(i, "vote");
        if (named == 0)
            return;
        const Lanes said = i.c != 0 ? ~warp_.predicate(i.b) : warp_.predicate(i.b);
        std::uint64_t* const to = warp_.row(i.to);
        for_each(named, [&](int lane) { to[lane] = said & named; });
        go_on(named);
    }

    void shuffle(const Instruction& i) {
        const Lanes named = met(i, "shuffle");
        if (named == 0)
            return;
        std::array<std::uint64_t, lanes> from{};
        std::copy_n(warp_.values(i.b), lanes, from.begin());
        std::uint64_t* const to = warp_.row(i.to);
        Lanes within = 0;
        for_each(named, [&](int lane) {
            const int limits = static_cast<int>(warp_.values(i.d)[lane]);
            const int other = partner(i.shuffle, lane, static_cast<int>(warp_.values(i.c)[lane]), limits);
            const int source = other < 0 ? lane : other;
            if ((named >> source & 1U) == 0)
                fault(warp_, i, lane,
                      "a shuffle from a thread that is not a member, " +
                          std::to_string(warp_.first_thread + source));
            within |= static_cast<Lanes>(other >= 0) << lane;
            to[lane] = from[static_cast<std::size_t>(source)] & 0xffff'ffffU;
        });
        if (i.target >= 0) {
            warp_.running = named;
            warp_.set_predicate(i.target, within);
        }
        go_on(named);
    }

    Warp& warp_;
    std::uint64_t left_;
    Lanes group_ = 0;
    int at_ = 0;
    int meeting_ = nowhere; ///< where others wait that the group may join
};

} // namespace

void take_turn(Warp& warp, std::uint64_t instructions) {
    Turn(warp, instructions).take();
}

} // namespace truestep::simulator
