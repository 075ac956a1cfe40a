// Lends values to a call, and overwrites them once it has returned: who reads them later reads NaN.
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace truestep::gate {

class Lender {
  public:
    /// What `call` returns when it is given a copy of these values.
    template <class Call>
    auto lend(std::span<const float> values, const Call& call) {
        const Overwritten after{place_};
        place_.assign(values.begin(), values.end());
        return call(std::span<const float>(place_));
    }

  private:
    struct Overwritten {
        explicit Overwritten(std::vector<float>& values) : place(values) {}
        Overwritten(const Overwritten&) = delete;
        Overwritten& operator=(const Overwritten&) = delete;
        ~Overwritten() { std::ranges::fill(place, std::numeric_limits<float>::quiet_NaN()); }
        std::vector<float>& place;
    };

    std::vector<float> place_; ///< kept, so that what is written to it is written
};

} // namespace truestep::gate
