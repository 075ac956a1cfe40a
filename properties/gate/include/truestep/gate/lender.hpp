// Lends values to a call, and overwrites them once it has returned: who reads them later reads NaN.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <truestep/problem/error.hpp>

namespace truestep::gate {

/// Makes a call that has to throw Error. If it does not, the error says `otherwise`.
template <class Call>
void must_refuse(const Call& call, const std::string& otherwise) {
    try {
        call();
    } catch (const Error&) {
        return;
    }
    throw Error(otherwise);
}

class Lender {
  public:
    /// What `call` returns when it is given a copy of these values.
    template <class Call>
    auto lend(std::span<const float> values, const Call& call) {
        const Overwritten after{place_};
        return call(placed(values));
    }

    /// The same, after an offer of one value too many, which the call has to refuse.
    template <class Call>
    auto lend_after_too_many(std::span<const float> values, const Call& call) {
        std::vector<float> more(values.begin(), values.end());
        more.push_back(1.0F);
        must_refuse([&] { static_cast<void>(call(placed(more))); },
                    "it takes " + std::to_string(more.size()) + " values, and " +
                        std::to_string(values.size()) + " are right");
        return lend(values, call);
    }

  private:
    struct Overwritten {
        explicit Overwritten(std::vector<float>& values) : place(values) {}
        Overwritten(const Overwritten&) = delete;
        Overwritten& operator=(const Overwritten&) = delete;
        ~Overwritten() { std::ranges::fill(place, std::numeric_limits<float>::quiet_NaN()); }
        std::vector<float>& place;
    };

    /// Not all memory that users lend is aligned.
    std::span<const float> placed(std::span<const float> values) {
        const std::size_t before = (++calls_ + values.size()) % 3 == 0 ? 1 : 0;
        place_.assign(before, 0.0F);
        place_.insert(place_.end(), values.begin(), values.end());
        return std::span<const float>(place_).subspan(before);
    }

    std::vector<float> place_; ///< kept, so that what is written to it is written
    std::size_t calls_ = 0;
};

} // namespace truestep::gate
