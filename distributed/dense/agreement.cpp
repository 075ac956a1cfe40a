// Compares the ranks' settings of dense training, and names the rank and setting that differ.
#include <truestep/distributed/dense/agreement.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/value_text.hpp>

namespace truestep::distributed::dense {

namespace {

template <class List>
std::string list_of(const List& values) {
    std::string all;
    for (const auto& value : values)
        if constexpr (requires { std::string(value); })
            all += (all.empty() ? "" : "/") + std::string(value);
        else
            all += (all.empty() ? "" : "/") + std::to_string(value);
    return all;
}

} // namespace

Words words_of(const Problem& problem) {
    Words words{{"order", value_text(problem.order)},
                {"accumulation", value_text(problem.accumulation)},
                {"clip_norm", value_text(problem.clip_norm)},
                {"copies", value_text(problem.copies)},
                {"the number of tensors", std::to_string(problem.tensors.size())},
                {"the number of groups", std::to_string(problem.groups.size())}};
    for (const Tensor& tensor : problem.tensors)
        words.emplace_back("tensor", tensor.name + " " + list_of(tensor.shape) + " " + tensor.role);
    for (std::size_t i = 0; i < problem.groups.size(); ++i) {
        const std::string group = "group " + std::to_string(i) + "'s ";
        words.emplace_back(group + "rule", value_text(problem.groups[i].rule));
        words.emplace_back(group + "roles", list_of(problem.groups[i].roles));
        visit_settings(problem.groups[i], [&](const char* what, const auto& value, const auto&...) {
            words.emplace_back(group + what, value_text(value));
        });
    }
    return words;
}

Index agree_on(const Problem& problem, const Words& more, const std::string& fault, Communicator& ranks) {
    constexpr std::string_view cannot = "fault\t";
    Words words{{"fault", fault}};
    if (fault.empty()) {
        words = words_of(problem);
        words.emplace_back("micro_batches", list_of(problem.micro_batches));
        words.insert(words.end(), more.begin(), more.end());
    }
    std::string text;
    for (const auto& [what, value] : words)
        text += one_line(what) + "\t" + one_line(value) + "\n";
    struct Record {
        std::uint64_t size;
        std::uint64_t run;
    };
    std::random_device random;
    const std::uint64_t drawn = (std::uint64_t{random()} << 32U | random()) >> 1U;
    const auto records = gather_records(ranks, Record{text.size(), drawn});
    std::vector<std::size_t> sizes;
    std::size_t bytes = 0;
    for (const Record& record : records) {
        sizes.push_back(static_cast<std::size_t>(record.size));
        bytes += sizes.back();
    }
    std::string all(bytes, '\0');
    ranks.start_all_gather(Traffic::agreement, text.data(), all.data(), sizes)->wait();
    if (!fault.empty())
        throw Error(fault);
    for (std::size_t rank = 0, begin = 0; rank < sizes.size(); begin += sizes[rank], ++rank)
        if (const std::string other = all.substr(begin, sizes[rank]); other.starts_with(cannot))
            throw Error("rank " + std::to_string(rank) +
                        " cannot begin: " + other.substr(cannot.size(), other.size() - cannot.size() - 1));
    const std::string first = all.substr(0, sizes[0]);
    std::size_t begin = sizes[0];
    for (std::size_t rank = 1; rank < sizes.size(); begin += sizes[rank], ++rank) {
        const std::string other = all.substr(begin, sizes[rank]);
        // The first line that differs. Its name does not: the lists that lines belong to begin with their
        // lengths, and settings with the rule that they belong to.
        for (std::size_t a = 0, b = 0; a < first.size();) {
            const std::string mine = first.substr(a, first.find('\n', a) - a);
            const std::string theirs = other.substr(b, other.find('\n', b) - b);
            if (mine != theirs) {
                throw Error("rank " + std::to_string(rank) + " has " + theirs.substr(0, theirs.find('\t')) +
                            " " + theirs.substr(theirs.find('\t') + 1) + " where rank 0 has " +
                            mine.substr(mine.find('\t') + 1) + "; start all ranks with the same");
            }
            a += mine.size() + 1;
            b += theirs.size() + 1;
        }
    }
    return static_cast<Index>(records.front().run);
}

bool agree_on_step(const Problem& problem, Index step, const std::vector<double>& rates, bool acceptable,
                   const std::string& fault, Communicator& ranks) {
    constexpr double cannot = 2.0;
    const std::size_t size = 1 + problem.groups.size();
    std::vector<double> mine(size);
    mine[0] = fault.empty() ? (acceptable ? 1.0 : 0.0) : cannot;
    if (fault.empty())
        std::ranges::copy(rates, mine.begin() + 1);
    const auto count = static_cast<std::size_t>(ranks.size());
    std::vector<double> all(count * size);
    const std::vector<std::size_t> sizes(count, size * sizeof(double));
    ranks.start_all_gather(Traffic::agreement, mine.data(), all.data(), sizes)->wait();
    if (!fault.empty())
        throw Error(fault);
    const std::string where = "step " + std::to_string(step) + ": rank ";
    for (std::size_t rank = 0; rank < count; ++rank)
        if (all[rank * size] == cannot)
            throw Error(where + std::to_string(rank) +
                        " cannot take it, and its own error says why; nothing has changed on any rank");
    bool all_acceptable = true;
    for (std::size_t rank = 0; rank < count; ++rank) {
        all_acceptable = all_acceptable && all[rank * size] == 1.0;
        for (std::size_t group = 0; group + 1 < size; ++group)
            if (const double rate = all[rank * size + 1 + group]; rate != all[1 + group])
                throw Error(where + std::to_string(rank) + " has the learning rate " + shortest(rate) +
                            " of group " + std::to_string(group) + " where rank 0 has " +
                            shortest(all[1 + group]) + "; nothing has changed, give all ranks the same");
    }
    return all_acceptable;
}

} // namespace truestep::distributed::dense
