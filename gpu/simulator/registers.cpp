// Lets registers share places. PTX has a register for every value: thousands, each used by a few
// instructions. Registers that are never needed at the same time share one place, so that a block's
// registers stay in the cache.
#include "registers.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace truestep::simulator {

namespace {

/// Calls read(operand) and write(operand) for each operand that is a register or a constant.
template <class Read, class Write>
void for_operands(Instruction& i, Form form, const Read& read, const Write& write) {
    const auto elements = [&](const auto& work) { std::ranges::for_each(i.elements, work); };
    if (i.kind == Kind::vote || i.kind == Kind::shuffle) {
        write(i.to);
        read(i.a);
        if (i.kind == Kind::shuffle)
            for (int* const one : {&i.b, &i.c, &i.d})
                read(*one);
        return;
    }
    if (i.kind != Kind::plain)
        return;
    switch (form) {
    case Form::four:
        read(i.d);
        [[fallthrough]];
    case Form::three:
        read(i.c);
        [[fallthrough]];
    case Form::two:
    case Form::select:
    case Form::atomic:
        read(i.b);
        [[fallthrough]];
    case Form::one:
        read(i.a);
        write(i.to);
        break;
    case Form::compare:
        read(i.a);
        read(i.b);
        break;
    case Form::predicate:
        break;
    case Form::load:
        read(i.a);
        elements(write);
        break;
    case Form::store:
        read(i.a);
        elements(read);
        break;
    }
}

class Set {
  public:
    explicit Set(int size) : words_((static_cast<std::size_t>(size) + 63) / 64) {}
    void add(int number) { words_[word(number)] |= bit(number); }
    void take_out(int number) { words_[word(number)] &= ~bit(number); }
    void clear() { std::ranges::fill(words_, 0); }
    /// Returns true if there was a new element.
    bool add_all(const Set& other) {
        std::uint64_t fresh = 0;
        for (std::size_t n = 0; n < words_.size(); ++n) {
            fresh |= other.words_[n] & ~words_[n];
            words_[n] |= other.words_[n];
        }
        return fresh != 0;
    }
    template <class Work>
    void for_each(const Work& work) const {
        for (std::size_t n = 0; n < words_.size(); ++n)
            for (std::uint64_t left = words_[n]; left != 0; left &= left - 1)
                work(static_cast<int>(n * 64) + std::countr_zero(left));
    }

  private:
    static std::size_t word(int number) { return static_cast<std::size_t>(number) / 64; }
    static std::uint64_t bit(int number) { return std::uint64_t{1} << (number % 64); }

    std::vector<std::uint64_t> words_;
};

/// The stretch from the first place where a register is needed or written to the last: 2n is before
/// instruction n, 2n + 1 behind it.
struct Stretch {
    int begin = -1;
    int end = -1;
    void hold(int place) {
        begin = begin < 0 ? place : std::min(begin, place);
        end = std::max(end, place);
    }
};

class Stretches {
  public:
    Stretches(Kernel& kernel, const std::vector<Form>& forms)
        : kernel_(kernel), forms_(forms), needed_(kernel.registers),
          all_(static_cast<std::size_t>(kernel.registers)) {
        for (const Instruction& i : kernel.code)
            if (i.kind == Kind::branch)
                at_targets_.try_emplace(i.target, kernel.registers);
    }

    std::vector<Stretch> find() {
        while (pass(false)) {
            // A value needed at the head of a loop is also needed at its end.
        }
        pass(true);
        return std::move(all_);
    }

  private:
    /// Goes from the last instruction to the first and finds what is needed before each. Returns
    /// true if it found more than before.
    bool pass(bool note) {
        bool more = false;
        needed_.clear();
        for (int n = static_cast<int>(kernel_.code.size()) - 1; n >= 0; --n) {
            Instruction& i = kernel_.code[static_cast<std::size_t>(n)];
            const bool always = i.guard < 0;
            if ((i.kind == Kind::branch || i.kind == Kind::end) && always)
                needed_.clear();
            if (i.kind == Kind::branch)
                needed_.add_all(at_targets_.at(i.target));
            const Form form = forms_[static_cast<std::size_t>(n)];
            const auto nothing = [](int) {};
            for_operands(i, form, nothing, [&](int to) {
                if (always && to >= first_register)
                    needed_.take_out(to);
                if (note && to >= first_register)
                    all_[static_cast<std::size_t>(to)].hold(2 * n + 1);
            });
            for_operands(
                i, form,
                [&](int from) {
                    if (from >= first_register)
                        needed_.add(from);
                },
                nothing);
            if (const auto target = at_targets_.find(n); target != at_targets_.end())
                more |= target->second.add_all(needed_);
            if (note)
                needed_.for_each([&](int number) { all_[static_cast<std::size_t>(number)].hold(2 * n); });
        }
        return more;
    }

    Kernel& kernel_;
    const std::vector<Form>& forms_;
    Set needed_;
    std::unordered_map<int, Set> at_targets_;
    std::vector<Stretch> all_;
};

} // namespace

void share_registers(Kernel& kernel, const std::vector<Form>& forms) {
    const std::vector<Stretch> stretches = Stretches(kernel, forms).find();
    std::vector<int> order(stretches.size());
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](int number) { return stretches[static_cast<std::size_t>(number)].begin < 0; });
    std::ranges::stable_sort(order, {},
                             [&](int number) { return stretches[static_cast<std::size_t>(number)].begin; });
    using Ending = std::pair<int, int>; // where, and which place is free behind it
    std::priority_queue<Ending, std::vector<Ending>, std::greater<>> taken;
    std::vector<int> free;
    std::vector<int> places(stretches.size());
    int count = first_register;
    for (const int number : order) {
        const Stretch& own = stretches[static_cast<std::size_t>(number)];
        for (; !taken.empty() && taken.top().first < own.begin; taken.pop())
            free.push_back(taken.top().second);
        if (free.empty())
            free.push_back(count++);
        places[static_cast<std::size_t>(number)] = free.back();
        taken.emplace(own.end, free.back());
        free.pop_back();
    }
    kernel.registers = count;
    for (std::size_t n = 0; n < kernel.code.size(); ++n) {
        const auto move = [&](int& operand) {
            if (operand >= first_register)
                operand = places[static_cast<std::size_t>(operand)];
        };
        for_operands(kernel.code[n], forms[n], move, move);
    }
}

} // namespace truestep::simulator
