// Finds the known word nearest to a mistyped one, by edit distance.
#include <truestep/gate/did_you_mean.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace truestep::gate {

namespace {

/// The edit distance: letters to change, add, drop, or swap with their neighbour.
std::size_t distance(std::string_view one, std::string_view two) {
    std::vector<std::size_t> before_last;
    std::vector<std::size_t> last(two.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= one.size(); ++i) {
        std::vector<std::size_t> row(two.size() + 1, i);
        for (std::size_t j = 1; j <= two.size(); ++j) {
            const std::size_t changed = last[j - 1] + (one[i - 1] == two[j - 1] ? 0 : 1);
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, changed});
            if (i > 1 && j > 1 && one[i - 1] == two[j - 2] && one[i - 2] == two[j - 1])
                row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
        before_last = std::exchange(last, std::move(row));
    }
    return last.back();
}

} // namespace

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
    std::optional<std::string> nearest;
    const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
    std::size_t least = 1 + (word.size() - dashes) / 4;
    for (const std::string& name : known)
        if (const std::size_t far = distance(word, name); far < least || (far == least && !nearest)) {
            nearest = name;
            least = far;
        }
    return nearest ? "; did you mean '" + *nearest + "'?" : std::string();
}

} // namespace truestep::gate
