// Parses the tensors and injections of a synthetic run, and checks that it fits memory and disk.
#include <truestep/verify/synthetic_run.hpp>

#include <optional>
#include <string_view>

#include <truestep/problem/error.hpp>
#include <truestep/problem/memory_limits.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::verify {

void check_room(const std::filesystem::path& output, int workers, Index size, Index steps) {
    // A worker needs a gradient, parameters or residual; a step needs an entry in the file's
    // header, and its gradients are written.
    constexpr double least_of_a_header_entry = 60.0;
    const double of_a_worker = 4.0 * static_cast<double>(size);
    const double steps_of_all = static_cast<double>(steps) * workers;
    problem::check_memory(2.0 * of_a_worker * workers + least_of_a_header_entry * steps_of_all,
                          "a run of " + std::to_string(size) + " parameters, " + std::to_string(workers) +
                              " ranks and " + std::to_string(steps) + " steps");
    problem::check_disk(of_a_worker * steps_of_all, output);
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::size_t begin = 0;
    while (true) {
        const std::size_t end = text.find(separator, begin);
        parts.push_back(text.substr(begin, end - begin));
        if (end == std::string::npos)
            return parts;
        begin = end + 1;
    }
}

std::vector<problem::Tensor> parse_tensors(const std::string& text) {
    std::vector<problem::Tensor> tensors;
    for (const std::string& part : split(text, ',')) {
        const auto fields = split(part, ':');
        const auto size = fields.size() >= 2 ? parse_number<Index>(fields[1]) : std::nullopt;
        if (!size || fields.size() > 3 || (fields.size() == 3 && fields[2] != "dense"))
            throw Error("--tensors has '" + part +
                        "'; write name:size or name:size:dense, with commas between");
        tensors.push_back({fields[0], *size, fields.size() == 3});
    }
    return tensors;
}

Injection parse_injection(const std::string& text) {
    const auto fields = split(text, ':');
    if (fields.size() == 4) {
        const auto step = parse_number<Index>(fields[0]);
        const auto rank = parse_number<int>(fields[1]);
        const auto index = parse_number<Index>(fields[2]);
        const auto value = parse_number<float>(fields[3]);
        if (step && rank && index && value)
            return {*step, *rank, *index, *value, text};
    }
    throw Error("--inject has '" + text + "'; write step:rank:coordinate:value, as in 2:0:17:nan");
}

std::vector<Injection> injections_of(const Settings& settings, Index steps, int ranks, Index size,
                                     const Words& words) {
    std::vector<Injection> all;
    for (const std::string& text : settings.texts("inject")) {
        const Injection one = parse_injection(text);
        if (one.step < 1 || one.step > steps || one.rank < 0 || one.rank >= ranks || one.index < 0 ||
            one.index >= size)
            throw Error("--inject has '" + text + "'; there are " + std::string(words.step) + "s 1 to " +
                        std::to_string(steps) + ", " + std::string(words.rank) + "s 0 to " +
                        std::to_string(ranks - 1) + ", coordinates 0 to " + std::to_string(size - 1));
        all.push_back(one);
    }
    return all;
}

double rate_between(double first, double last, Index step, Index steps) {
    const double end = last < 0.0 ? first : last;
    return steps == 1
               ? first
               : first + (end - first) * static_cast<double>(step - 1) / static_cast<double>(steps - 1);
}

} // namespace truestep::verify
