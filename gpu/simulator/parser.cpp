// Parses PTX as nvcc writes it: entries of one dimension, without calls.
#include <truestep/simulator/program.hpp>

#include <stdexcept>
#include <unordered_map>

#include <truestep/simulator/fault.hpp>

#include "instructions.hpp"
#include "registers.hpp"
#include "words.hpp"

namespace truestep::simulator {

namespace {

class Parser {
  public:
    explicit Parser(Registers registers) : registers_(registers) {}

    Program parse(std::string_view ptx) {
        while (!ptx.empty()) {
            const auto end = ptx.find('\n');
            whole_ = ptx.substr(0, end);
            ptx = end == std::string_view::npos ? std::string_view() : ptx.substr(end + 1);
            ++line_;
            const std::string_view text = trimmed(whole_.substr(0, whole_.find("//")));
            try {
                if (!text.empty())
                    take(text);
            } catch (const std::logic_error&) { // of numbers, and of operands that are not there
                bad("cannot be read");
            }
        }
        if (kernel_)
            bad("the PTX ends within a kernel");
        return std::move(program_);
    }

  private:
    [[noreturn]] void bad(const std::string& what) const {
        throw Fault("PTX line " + std::to_string(line_) + ": " + what + ": " +
                    std::string(trimmed(whole_)));
    }

    void take(std::string_view text) {
        if (in_section_) {
            in_section_ = text != "}";
            return;
        }
        if (text.starts_with(".file"))
            return take_file(text);
        if (!kernel_)
            return take_outside(text);
        if (in_header_)
            return take_header(text);
        take_inside(text);
    }

    void take_file(std::string_view text) {
        const auto words = words_of(text);
        const std::string_view path = words.at(2); // in quotation marks
        const auto slash = path.rfind('/');
        std::string_view name = path.substr(slash == std::string_view::npos ? 1 : slash + 1);
        name = name.substr(0, name.find('"'));
        (*files_)[static_cast<int>(number_in(words.at(1)))] = name;
    }

    void take_outside(std::string_view text) {
        if (text.starts_with(".section")) {
            in_section_ = true;
            return;
        }
        if (text.starts_with(".version") || text.starts_with(".target") ||
            text.starts_with(".address_size"))
            return;
        const auto at = text.find(".entry ");
        if (at == std::string_view::npos)
            bad("the simulator knows kernels only, no functions and no variables outside of them");
        kernel_ = std::make_shared<Kernel>();
        kernel_->files = files_;
        const std::string_view name = trimmed(text.substr(at + 7));
        kernel_->name = name.substr(0, name.find('('));
        banks_.clear();
        labels_.clear();
        symbols_.clear();
        constants_.clear();
        jumps_.clear();
        forms_.clear();
        source_ = {};
        in_header_ = !name.ends_with("()");
    }

    void take_header(std::string_view text) {
        if (text == "(")
            return;
        if (text.starts_with(')')) {
            in_header_ = false;
            return;
        }
        if (!text.starts_with(".param"))
            bad("a parameter was expected");
        const Declaration parameter = declared(text.substr(6));
        const std::uint64_t at = aligned_to(parameter.align, kernel_->parameter_bytes);
        symbols_[parameter.name] = at;
        kernel_->parameters.push_back({at, parameter.bytes});
        kernel_->parameter_bytes = at + parameter.bytes;
    }

    void take_inside(std::string_view text) {
        if (text == "{")
            return;
        if (text == "}")
            return end_kernel();
        if (text.front() == '.')
            return take_directive(text);
        if (text.ends_with(':')) {
            labels_[std::string(text.substr(0, text.size() - 1))] = static_cast<int>(kernel_->code.size());
            return;
        }
        if (!text.ends_with(';'))
            bad("an instruction without an end");
        take_instruction(text);
    }

    void take_directive(std::string_view text) {
        const auto words = words_of(text);
        if (words[0] == ".maxntid") {
            kernel_->most_threads = static_cast<std::uint32_t>(number_in(words.at(1)));
        } else if (words[0] == ".loc") {
            if (number_in(words.at(2)) > 0) // 0 means no particular line
                source_ = {static_cast<int>(number_in(words.at(1))),
                           static_cast<int>(number_in(words.at(2)))};
        } else if (words[0] == ".reg") {
            const std::string_view name = words.at(2);
            const auto bracket = name.find('<');
            const int count = static_cast<int>(number_in(name.substr(bracket + 1)));
            int& used = words.at(1) == ".pred" ? kernel_->predicates : kernel_->registers;
            banks_[std::string(name.substr(0, bracket))] = used;
            used += count;
        } else if (words[0] == ".shared") {
            const Declaration variable = declared(text.substr(7));
            const std::uint64_t at = aligned_to(variable.align, kernel_->shared_bytes);
            symbols_[variable.name] = at;
            kernel_->shared_bytes = at + variable.bytes;
        } else if (words[0] != ".minnctapersm" && words[0] != ".pragma") {
            bad("a directive that the simulator does not know");
        }
    }

    void end_kernel() {
        for (const auto& [at, label] : jumps_) {
            const auto target = labels_.find(label);
            if (target == labels_.end())
                bad("there is no label " + label);
            kernel_->code[at].target = target->second;
        }
        kernel_->code.push_back({.kind = Kind::beyond});
        kernel_->text.emplace_back();
        forms_.push_back(Form::one); // not looked at
        if (registers_ == Registers::shared)
            share_registers(*kernel_, forms_);
        program_.kernels[kernel_->name] = kernel_;
        kernel_.reset();
    }

    void take_instruction(std::string_view text) {
        Instruction i;
        i.ptx_line = line_;
        i.file = source_.file;
        i.source_line = source_.line;
        std::string_view rest = trimmed(text.substr(0, text.size() - 1));
        if (rest.front() == '@') {
            i.negated = rest.at(1) == '!';
            const auto end = rest.find_first_of(" \t");
            const auto begin = std::size_t{i.negated ? 2U : 1U};
            i.guard = predicate(rest.substr(begin, end - begin));
            rest = trimmed(rest.substr(end));
        }
        const auto end = rest.find_first_of(" \t");
        const std::string opcode(rest.substr(0, end));
        const auto operands =
            end == std::string_view::npos ? std::vector<std::string_view>() : operands_of(rest.substr(end));
        program_.opcodes.insert(opcode);
        forms_.push_back(Form::one);
        if (!take_control(i, opcode, operands))
            take_plain(i, opcode, operands);
        kernel_->code.push_back(i);
        kernel_->text.emplace_back(text);
    }

    bool take_control(Instruction& i, const std::string& opcode,
                      const std::vector<std::string_view>& operands) {
        if (opcode == "bra" || opcode == "bra.uni") {
            i.kind = Kind::branch;
            jumps_.emplace_back(kernel_->code.size(), operands.at(0));
        } else if (opcode == "ret" || opcode == "exit") {
            i.kind = Kind::end;
        } else if (opcode == "bar.sync" || opcode == "barrier.sync") {
            i.kind = Kind::barrier;
            if (operands.size() != 1 || operands[0] != "0")
                bad("the simulator knows the barrier of the whole block only");
        } else if (opcode == "vote.sync.ballot.b32") {
            i.kind = Kind::vote;
            i.to = value(operands.at(0));
            i.c = operands.at(1).front() == '!' ? 1 : 0;
            i.b = predicate(operands[1].substr(static_cast<std::size_t>(i.c)));
            i.a = value(operands.at(2));
            if (i.guard >= 0)
                bad("the simulator knows no vote with a guard");
        } else if (opcode.starts_with("shfl.sync.")) {
            take_shuffle(i, opcode, operands);
        } else {
            return false;
        }
        return true;
    }

    /// shfl.sync.MODE.b32 to|predicate, from, lane, limits, members; the predicate may be left out.
    void take_shuffle(Instruction& i, const std::string& opcode,
                      const std::vector<std::string_view>& operands) {
        static const std::unordered_map<std::string_view, Shuffle> modes{
            {"shfl.sync.up.b32", Shuffle::up},
            {"shfl.sync.down.b32", Shuffle::down},
            {"shfl.sync.bfly.b32", Shuffle::butterfly},
            {"shfl.sync.idx.b32", Shuffle::index}};
        const auto mode = modes.find(opcode);
        if (mode == modes.end() || i.guard >= 0)
            bad("the simulator knows shuffles of 32 bits, without a guard");
        i.kind = Kind::shuffle;
        i.shuffle = mode->second;
        const auto bar = operands.at(0).find('|');
        i.to = value(operands[0].substr(0, bar));
        i.target = bar == std::string_view::npos ? always_false : predicate(operands[0].substr(bar + 1));
        i.b = value(operands.at(1));
        i.c = value(operands.at(2));
        i.d = value(operands.at(3));
        i.a = value(operands.at(4));
    }

    void take_plain(Instruction& i, const std::string& opcode,
                    const std::vector<std::string_view>& operands) {
        const auto known = instructions().find(opcode);
        if (known == instructions().end())
            bad("an instruction that the simulator does not know, " + opcode);
        i.execute = known->second.execute;
        forms_.back() = known->second.form;
        switch (known->second.form) {
        case Form::four:
            i.d = value(operands.at(4));
            [[fallthrough]];
        case Form::three:
            i.c = value(operands.at(3));
            [[fallthrough]];
        case Form::two:
            i.b = value(operands.at(2));
            [[fallthrough]];
        case Form::one:
            i.to = value(operands.at(0));
            i.a = value(operands.at(1));
            break;
        case Form::compare:
            i.to = predicate(operands.at(0));
            i.a = value(operands.at(1));
            i.b = value(operands.at(2));
            break;
        case Form::predicate:
            i.to = predicate(operands.at(0));
            i.a = predicate(operands.at(1));
            i.b = operands.size() > 2 ? predicate(operands[2]) : always_false;
            break;
        case Form::select:
            i.to = value(operands.at(0));
            i.a = value(operands.at(1));
            i.b = value(operands.at(2));
            i.c = predicate(operands.at(3));
            break;
        case Form::load:
            take_elements(i, operands.at(0));
            take_address(i, operands.at(1));
            break;
        case Form::store:
            take_address(i, operands.at(0));
            take_elements(i, operands.at(1));
            break;
        case Form::atomic:
            i.to = value(operands.at(0));
            take_address(i, operands.at(1));
            i.b = value(operands.at(2));
            break;
        }
    }

    void take_address(Instruction& i, std::string_view text) {
        if (text.size() < 3 || text.front() != '[' || text.back() != ']')
            bad("an address was expected");
        text = text.substr(1, text.size() - 2);
        if (const auto plus = text.find('+'); plus != std::string_view::npos) {
            i.offset = std::stoll(std::string(text.substr(plus + 1)));
            text = text.substr(0, plus);
        }
        i.a = value(trimmed(text));
    }

    void take_elements(Instruction& i, std::string_view text) {
        if (text.front() != '{') {
            i.elements[0] = value(text);
            return;
        }
        std::size_t n = 0;
        for (const std::string_view element : operands_of(text.substr(1, text.size() - 2)))
            i.elements.at(n++) = value(element);
    }

    /// The number of a register or of a constant.
    int value(std::string_view text) {
        static const std::unordered_map<std::string_view, int> given{{"%tid.x", thread_x},
                                                                     {"%ctaid.x", block_x},
                                                                     {"%ntid.x", threads_x},
                                                                     {"%nctaid.x", blocks_x},
                                                                     {"%laneid", lane_id}};
        if (const auto at = given.find(text); at != given.end())
            return at->second;
        if (text.front() == '%')
            return in_bank(text);
        if (text.starts_with("0f") || text.starts_with("0d"))
            return constant(std::stoull(std::string(text.substr(2)), nullptr, 16));
        if (text.front() == '-')
            return constant(static_cast<std::uint64_t>(std::stoll(std::string(text))));
        if (text.front() >= '0' && text.front() <= '9')
            return constant(std::stoull(std::string(text), nullptr, 0));
        const auto symbol = symbols_.find(std::string(text));
        if (symbol == symbols_.end())
            bad("there is no " + std::string(text));
        return constant(symbol->second);
    }

    int predicate(std::string_view text) {
        if (text == "0")
            return always_false;
        if (text == "1" || text == "-1")
            return always_true;
        if (!text.starts_with("%p"))
            bad("a predicate was expected in place of " + std::string(text));
        return in_bank(text);
    }

    int in_bank(std::string_view text) {
        const auto digits = text.find_first_of("0123456789");
        const auto bank = banks_.find(std::string(text.substr(0, digits)));
        if (digits == std::string_view::npos || bank == banks_.end())
            bad("a register that the simulator does not know, " + std::string(text));
        return bank->second + static_cast<int>(number_in(text.substr(digits)));
    }

    int constant(std::uint64_t bits) {
        const auto [at, made] = constants_.try_emplace(bits, 0);
        if (made) {
            std::array<std::uint64_t, lanes> row{};
            row.fill(bits);
            at->second = ~static_cast<int>(kernel_->constants.size());
            kernel_->constants.push_back(row);
        }
        return at->second;
    }

    struct Source {
        int file = 0;
        int line = 0;
    };

    Registers registers_;
    Program program_;
    std::shared_ptr<std::map<int, std::string>> files_ = std::make_shared<std::map<int, std::string>>();
    std::shared_ptr<Kernel> kernel_;
    bool in_header_ = false;
    bool in_section_ = false;
    std::string_view whole_;
    int line_ = 0;
    Source source_;
    std::unordered_map<std::string, int> banks_; ///< the first number of %r, %rd ...
    std::unordered_map<std::string, int> labels_;
    std::unordered_map<std::string, std::uint64_t> symbols_;
    std::unordered_map<std::uint64_t, int> constants_;
    std::vector<std::pair<std::size_t, std::string>> jumps_;
    std::vector<Form> forms_; ///< of each instruction; arbitrary if it is not plain
};

} // namespace

Program parse(std::string_view ptx, Registers registers) {
    return Parser(registers).parse(ptx);
}

} // namespace truestep::simulator
