// A warp's turn: which of its lanes run, branches, barriers, votes.
#include "turn.hpp"

#include <bit>
#include <limits>

#include <scape/simulator/fault.hpp>

namespace scape::simulator {

namespace {

constexpr int nowhere = std::numeric_limits<int>::max();

int first_of(Lanes set) {
    return std::countr_zero(set);
}

class Turn {
  public:
    Turn(Warp& warp, std::uint64_t instructions) : warp_(warp), left_(instructions) {}

    void take() {
        while (left_ > 0 && warp_.ready() != 0) {
            choose();
            while (left_ > 0 && at_ != meeting_ && step())
                --left_;
            park(group_, at_);
        }
    }

  private:
    void park(Lanes set, int at) {
        for (; set != 0; set &= set - 1)
            warp_.next[static_cast<std::size_t>(first_of(set))] = at;
    }

    /// Those that run together: all at one instruction. Mostly the first one that anybody is at, so that
    /// those whom a branch has parted meet again; now and then any.
    void choose() {
        const Lanes ready = warp_.ready();
        std::mt19937_64& random = *warp_.block->random;
        at_ = nowhere;
        if ((random() & 7U) == 0) {
            Lanes left = ready;
            for (auto skip = random() % static_cast<unsigned>(std::popcount(ready)); skip > 0; --skip)
                left &= left - 1;
            at_ = warp_.next[static_cast<std::size_t>(first_of(left))];
        } else {
            for_each(ready,
                     [&](int lane) { at_ = std::min(at_, warp_.next[static_cast<std::size_t>(lane)]); });
        }
        group_ = 0;
        meeting_ = nowhere;
        for_each(ready, [&](int lane) {
            const int next = warp_.next[static_cast<std::size_t>(lane)];
            if (next == at_)
                group_ |= Lanes{1} << lane;
            else if (next > at_)
                meeting_ = std::min(meeting_, next);
        });
    }

    /// One instruction of the group. False when the group is to be chosen anew.
    bool step() {
        const auto& code = warp_.kernel->code;
        if (at_ >= static_cast<int>(code.size()))
            throw Fault("the code of " + warp_.kernel->readable_name() + " ends without ret");
        const Instruction& i = code[static_cast<std::size_t>(at_)];
        Lanes on = group_;
        if (i.guard >= 0)
            on &= i.negated ? ~warp_.predicate(i.guard) : warp_.predicate(i.guard);
        switch (i.kind) {
        case Kind::plain:
            warp_.running = on;
            if (on != 0)
                i.execute(warp_, i);
            ++at_;
            return true;
        case Kind::branch:
            return branch(i, on);
        case Kind::end:
            warp_.live &= ~on;
            break;
        case Kind::barrier:
            warp_.at_barrier |= on;
            break;
        case Kind::vote:
            vote(i);
            return false;
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
        // Nobody runs ahead of those who wait at a later place, or leaves them waiting for ever in a loop.
        return meeting_ == nowhere || (!back && at_ <= meeting_);
    }

    void vote(const Instruction& i) {
        const std::uint64_t* const members = warp_.values(i.a);
        const auto named = static_cast<Lanes>(members[first_of(group_)]);
        for_each(group_, [&](int lane) {
            if (static_cast<Lanes>(members[lane]) != named)
                fault(warp_, i, lane, "threads of one vote name different members");
            if ((named >> lane & 1U) == 0)
                fault(warp_, i, lane, "a thread that is no member of its own vote");
        });
        if ((named & ~warp_.live) != 0)
            fault(warp_, i, first_of(group_),
                  "a vote with a member that has ended, thread " +
                      std::to_string(warp_.first_thread + first_of(named & ~warp_.live)));
        warp_.at_vote |= group_;
        park(group_, at_);
        Lanes here = 0;
        for_each(warp_.at_vote, [&](int lane) {
            here |= static_cast<Lanes>(warp_.next[static_cast<std::size_t>(lane)] == at_) << lane;
        });
        if ((here & named) != named)
            return; // the others have not come yet
        const Lanes said = i.c != 0 ? ~warp_.predicate(i.b) : warp_.predicate(i.b);
        std::uint64_t* const to = warp_.row(i.to);
        for_each(named, [&](int lane) { to[lane] = said & named; });
        warp_.at_vote &= ~named;
        park(named, at_ + 1);
        group_ = 0; // parked
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

} // namespace scape::simulator
