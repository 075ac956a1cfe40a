// Splits lines of PTX into words and operands, and reads numbers, types and declarations in them.
#include "words.hpp"

#include <charconv>
#include <stdexcept>

namespace truestep::simulator {

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r";
    const auto begin = text.find_first_not_of(blanks);
    if (begin == std::string_view::npos)
        return {};
    return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::vector<std::string_view> words_of(std::string_view text) {
    constexpr std::string_view between = " \t\r,;";
    std::vector<std::string_view> words;
    while (true) {
        const auto begin = text.find_first_not_of(between);
        if (begin == std::string_view::npos)
            return words;
        text = text.substr(begin);
        const auto end = text.find_first_of(between);
        words.push_back(text.substr(0, end));
        if (end == std::string_view::npos)
            return words;
        text = text.substr(end);
    }
}

std::vector<std::string_view> operands_of(std::string_view text) {
    std::vector<std::string_view> operands;
    std::size_t begin = 0;
    int depth = 0;
    for (std::size_t at = 0; at <= text.size(); ++at) {
        if (at < text.size() && text[at] == '{')
            ++depth;
        if (at < text.size() && text[at] == '}')
            --depth;
        if (at < text.size() && (text[at] != ',' || depth > 0))
            continue;
        if (const auto operand = trimmed(text.substr(begin, at - begin)); !operand.empty())
            operands.push_back(operand);
        begin = at + 1;
    }
    return operands;
}

std::uint64_t number_in(std::string_view text) {
    std::uint64_t number = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
        throw std::invalid_argument("no number");
    return number;
}

namespace {

std::uint64_t bytes_of_type(std::string_view type) {
    const auto digits = type.find_first_of("0123456789");
    return digits == std::string_view::npos ? 0 : number_in(type.substr(digits)) / 8;
}

} // namespace

Declaration declared(std::string_view text) {
    Declaration result;
    std::uint64_t element = 0;
    std::uint64_t count = 1;
    bool align_given = false;
    bool align_is_next = false;
    for (std::string_view word : words_of(text)) {
        if (align_is_next) {
            result.align = number_in(word);
            align_is_next = false;
            align_given = true;
        } else if (word == ".align") {
            align_is_next = true;
        } else if (word.front() == '.') {
            element = bytes_of_type(word);
        } else {
            const auto bracket = word.find('[');
            result.name = word.substr(0, bracket);
            if (bracket != std::string_view::npos)
                count = number_in(word.substr(bracket + 1));
        }
    }
    if (!align_given)
        result.align = element;
    result.bytes = element * count;
    return result;
}

} // namespace truestep::simulator
