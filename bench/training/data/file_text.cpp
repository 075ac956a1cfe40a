// Reads a file as training text: maps its bytes to symbols, and cuts off the part to measure on.
#include <truestep/training/text.hpp>

#include <array>
#include <fstream>
#include <iterator>

#include <truestep/problem/error.hpp>
#include <truestep/problem/memory_limits.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::training {

namespace {

constexpr std::size_t least = 256; ///< symbols of either part: fewer measure nothing

std::vector<std::uint8_t> bytes_of(const std::filesystem::path& path) {
    const std::string name = one_line(path.string());
    std::error_code failed;
    const std::filesystem::file_status status = std::filesystem::status(path, failed);
    if (!std::filesystem::exists(status))
        throw Error(name + ": there is no such file; give a file with text");
    if (std::filesystem::is_directory(status))
        throw Error(name + " is a folder; give a file with text");
    if (!std::filesystem::is_regular_file(status))
        throw Error(name + " has no known length; copy its content to a file");
    problem::check_memory(10.0 * static_cast<double>(std::filesystem::file_size(path)),
                          "the text of " + name);
    std::ifstream file(path, std::ios::binary);
    std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    if (file.bad() || !file.is_open())
        throw Error(name + ": cannot be read; see that you may read it");
    return bytes;
}

} // namespace

Text text_of_file(const std::filesystem::path& path, double share) {
    if (!(share > 0.0 && share < 1.0))
        throw Error("the share of the text that is learned from is " + shortest(share) +
                    "; it must be between 0 and 1");
    std::vector<std::uint8_t> bytes = bytes_of(path);
    const auto cut = static_cast<std::size_t>(share * static_cast<double>(bytes.size()));
    if (cut < least || bytes.size() - cut < least)
        throw Error(one_line(path.string()) + ": too short: " + std::to_string(cut) +
                    " symbols are learned from and " + std::to_string(bytes.size() - cut) +
                    " measured on, and each must be at least " + std::to_string(least) +
                    "; give a longer text, or cut it elsewhere");

    std::array<bool, 256> occurs{};
    for (const std::uint8_t byte : bytes)
        occurs[byte] = true;
    std::array<std::uint8_t, 256> symbol_of{};
    std::size_t symbols = 0;
    for (std::size_t byte = 0; byte < occurs.size(); ++byte)
        if (occurs[byte])
            symbol_of[byte] = static_cast<std::uint8_t>(symbols++);
    if (symbols < 2)
        throw Error(one_line(path.string()) +
                    ": holds one symbol alone, of which there is nothing to learn");
    for (std::uint8_t& byte : bytes)
        byte = symbol_of[byte];

    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(cut);
    return {.name = one_line(path.filename().string()),
            .symbols = symbols,
            .learned = {bytes.begin(), at},
            .measured = {at, bytes.end()},
            .entropy = {}};
}

} // namespace truestep::training
